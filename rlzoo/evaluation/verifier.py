"""A verifier model beside the rules: it judges the answers that these refuse, behind an OpenAI-compatible endpoint.

JustRL's published scores are those of rules **or** CompassVerifier-3B (arXiv:2508.03686), which can only raise a score.
`vllm serve opencompass/CompassVerifier-3B` is such an endpoint, and the prompt that its authors publish a template.
JustRL's own grader gives the verifier an empty question; here it is given the question.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

import requests

from rlzoo.config import VerifierConfig
from rlzoo.errors import UserError, one_line
from rlzoo.files import append_json_line, read_json_lines

TEMPLATE = """\
You compare a student's final answer with the standard answer of a question. The standard answer is right. Judge the \
final answer alone, not the reasoning; the same value written in another way is the same answer.

Question:
{question}

Standard answer:
{gold_answer}

The student wrote:
{llm_response}

Reply with one letter: A if the final answer agrees with the standard answer, B if it does not, C if there is no final \
answer.
"""
FIELDS = frozenset({"question", "gold_answer", "llm_response"})
RETRIES = 3

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Verifier:
    """Asks a model about answers and keeps what it said in a file, so that no answer is judged twice."""

    config: VerifierConfig
    template: str
    kept: Path

    def __call__(self, records: Sequence[Record], judged: Callable[[int, int], None]) -> list[str]:
        """The verdict on each record's response: A, B, C or, if the reply is none of these, an empty text.

        Equal responses to a question are judged once; `judged` learns how many are, of how many. Raises UserError if
        the endpoint cannot be asked; what it said until then is kept.
        """
        prompts = [self._prompt(record) for record in records]
        keys = [self._key(prompt) for prompt in prompts]
        known = {line["key"]: line["verdict"] for line in read_json_lines(self.kept)}
        asked = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in known}
        with ThreadPoolExecutor(self.config.parallel) as pool:
            try:
                replies = pool.map(self._reply, asked.values())
                for done, (key, reply) in enumerate(zip(asked, replies, strict=True), 1):
                    known[key] = verdict(reply)
                    append_json_line(self.kept, {"key": key, "verdict": known[key], "reply": reply})
                    judged(done, len(asked))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [known[key] for key in keys]

    def _prompt(self, record: Record) -> str:
        return self.template.format(
            question=record["problem"], gold_answer=record["answer"], llm_response=record["response"]
        )

    def _key(self, prompt: str) -> str:
        return hashlib.sha256(json.dumps([self.config.model, prompt]).encode()).hexdigest()

    def _reply(self, prompt: str) -> str:
        url = f"{self.config.url.rstrip('/')}/chat/completions"
        body = {
            "model": self.config.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": 8,
        }
        with requests.Session() as session:
            session.mount("http", requests.adapters.HTTPAdapter(max_retries=RETRIES))
            try:
                answer = session.post(url, json=body, timeout=self.config.timeout)
                answer.raise_for_status()
                return str(answer.json()["choices"][0]["message"]["content"])
            except (requests.RequestException, ValueError, LookupError, TypeError) as error:
                raise UserError(
                    f"verifier.url={self.config.url} gave no verdict: {one_line(error)}; is a server with "
                    f"verifier.model={self.config.model} running there? what was judged is kept in {self.kept}"
                ) from None


def verdict(reply: str) -> str:
    """The letter that a reply begins with, not as an article of a sentence; or an empty text."""
    match = re.match(r"\W*([ABC])\b(?!\s+\w)", reply)
    return match[1] if match else ""


def load_verifier(config: VerifierConfig, kept: Path) -> Verifier | None:
    """The verifier of a configuration, which keeps its verdicts in `kept`; none if no key asks for one.

    Raises UserError for keys that cannot work.
    """
    if config == VerifierConfig():
        return None
    if not config.model:
        raise UserError(f"verifier.url={config.url} needs the model to ask for there: verifier.model=NAME")
    if not config.url.startswith(("http://", "https://")):
        raise UserError(f"verifier.url={config.url} is no address; for example verifier.url=http://localhost:8000/v1")
    return Verifier(config, _template(config.template), kept)


def _template(file: str) -> str:
    if not file:
        return TEMPLATE
    try:
        text = Path(file).expanduser().read_text(encoding="utf-8")
        named = {name for _, name, _, _ in Formatter().parse(text) if name is not None}
    except (OSError, ValueError) as error:
        raise UserError(f"verifier.template={file} cannot be read: {one_line(error)}") from None
    if named - FIELDS or not {"gold_answer", "llm_response"} <= named:
        raise UserError(
            f"verifier.template={file} must name {{gold_answer}} and {{llm_response}}, may name {{question}}, and "
            f"nothing else; it names {', '.join(sorted(named)) or 'none'}"
        )
    return text
