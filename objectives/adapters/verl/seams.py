"""What the adapter relies on in verl."""

from objectives.adapters.package import Package

_TRAINER = "verl.trainer.ppo.v1.trainer_base:PPOTrainer"
_WORKERS = "verl.workers.engine_workers"
_PADDING = "verl.workers.utils.padding"
PEER = Package(
    "verl",
    tested=(0, 9),
    seams={
        "verl.experimental.agent_loop.agent_loop:AgentLoopWorker._compute_teacher_logprobs": (
            *("self", "output", "prompt_ids", "response_ids"),
        ),
        "verl.single_controller.base.worker:Worker._query_dispatch_info": ("self", "mesh_name"),
        "verl.trainer.ppo.padding_utils:upsample_batch_to_divisible_size": ("batch", "batch_multiple", "eos_token_id"),
        "verl.trainer.ppo.v1.replay_buffer:ReplayBuffer._dapo_filtered_keys": ("self", "partition_id"),
        f"{_TRAINER}.__init__": ("self", "config"),
        f"{_TRAINER}._balance_batch": ("self", "batch", "metrics"),
        f"{_TRAINER}._build_replay_buffer": ("self",),
        f"{_TRAINER}._compute_advantage": ("self", "batch", "metrics"),
        f"{_TRAINER}._compute_old_log_prob": ("self", "batch", "metrics"),
        f"{_TRAINER}._init_resource_pool_mgr": ("self",),
        f"{_TRAINER}._init_tokenizer": ("self",),
        f"{_TRAINER}._load_checkpoint": ("self",),
        f"{_TRAINER}._save_checkpoint": ("self",),
        f"{_TRAINER}._update_actor": ("self", "batch", "metrics"),
        f"{_TRAINER}.prepare_step": ("self",),
        "verl.trainer.ppo.v1.trainer_base:TRAINER_REGISTRY.__setitem__": ("key", "value"),
        "verl.trainer.ppo.v1.trainer_sync:PPOTrainerSync": ("config",),
        "verl.utils:hf_tokenizer": ("name_or_path",),
        "verl.utils.fs:copy_to_local": ("src",),
        "verl.utils.seqlen_balancing:calculate_workload": ("seqlen_list",),
        "verl.utils.seqlen_balancing:get_seqlen_balanced_partitions": ("seqlen_list", "k_partitions", "equal_size"),
        "verl.workers.engine.base:BaseEngine.eval_mode": ("self",),
        "verl.workers.engine.base:BaseEngine.get_data_parallel_group": ("self",),
        "verl.workers.engine.base:BaseEngine.get_data_parallel_rank": ("self",),
        "verl.workers.engine.base:BaseEngine.get_data_parallel_size": ("self",),
        "verl.workers.engine.base:BaseEngine.infer_batch": ("self", "data", "loss_function"),
        "verl.workers.engine.base:BaseEngine.train_batch": ("self", "data", "loss_function"),
        f"{_WORKERS}:ActorRolloutRefWorker.actor_worker_cls": ("config",),
        f"{_WORKERS}:TrainingWorker.set_loss_fn": ("self", "loss_fn"),
        f"{_WORKERS}:TrainingWorker.train_batch": ("self", "data"),
        f"{_WORKERS}:TrainingWorker.train_mini_batch": ("self", "data"),
        "verl.workers.utils.losses:ppo_loss": ("config", "model_output", "data", "dp_group"),
        f"{_PADDING}:no_padding_2_padding": ("tensor", "data"),
        f"{_PADDING}:response_from_nested": ("tensor", "response_mask"),
        f"{_PADDING}:response_to_nested": ("tensor", "response_mask"),
    },
)
