"""What can be set: one frozen, flat dataclass a group, with types and ranges. The values live in configs/, and only there.

A new setting names its `Absent` value too: what a checkpoint that was written before it means, so that it still loads.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from nmt.schema import Absent, Filled, Partly, Range

Count = Annotated[int, Range(1, 10**12)]  # all that is counted, in NumPy and PyTorch too, fits into 64 bits
Size = Annotated[int, Range(1, 100_000)]
Threads = Annotated[int, Range(1, 1024)]
Workers = Annotated[int, Range(1, 256)]
Beam = Annotated[int, Range(1, 1000)]
CountOrZero = Annotated[int, Range(0, 10**12)]
Seed = Annotated[int, Range(0, 10**18)]
Positive = Annotated[float, Range(0, above=True)]
NotNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 0.95)]
Decay = Annotated[float, Range(0, 0.999999)]
Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]
Metric = Literal["bleu", "chrf", "loss", "perplexity"]
PATH = "path"  # marks settings that hold file names: the command line quotes what is given for them
FilePath = Annotated[str, PATH]
FilePaths = Annotated[list[Any], PATH]
FileName = Annotated[str, PATH, Filled()]
FileNames = Annotated[list[FileName], PATH]


@dataclass(frozen=True)
class DataConfig:
    """Where the text is. An item of train, valid or test is a prefix, a .tsv or .jsonl file, or a pair of files.

    Where `path` is set, to a name on the Hugging Face hub or to a folder, an item is the name of a split instead.
    """

    name: str
    src_lang: str
    tgt_lang: str
    path: FilePath | None
    config: FilePath | None
    revision: FilePath | None
    train: FilePaths
    valid: FilePaths
    test: FilePaths
    field: str | None
    src_field: str | int | None
    tgt_field: str | int | None
    folder: FilePath


@dataclass(frozen=True)
class FilterConfig:
    """Which training pairs are dropped; validation and test pairs never are."""

    max_pieces: Count
    max_ratio: Annotated[float, Range(1)]
    drop_copies: bool
    drop_duplicates: bool


@dataclass(frozen=True)
class TokenizerConfig:
    """How SentencePiece learns its pieces."""

    type: Literal["bpe", "unigram"]
    joint: bool
    vocab_size: Annotated[int, Range(8, 1_000_000)]
    character_coverage: Annotated[float, Range(0.98, 1)]
    byte_fallback: bool
    sample_lines: Count
    seed: Seed


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and variants of the network; see nmt/model."""

    embedding_size: Size
    encoder_size: Size
    encoder_layers: Annotated[int, Range(1, 100), Absent(1)]
    decoder_size: Size
    cell: Annotated[Literal["gru", "conditional"], Absent("gru")]
    transitions: Annotated[int, Range(0, 100), Absent(0)]
    attention: Literal["additive", "dot", "general", "none"]
    attention_size: Size
    initial_state: Literal["backward", "mean"]
    readout: Literal["maxout", "tanh"]
    readout_size: Size
    layer_norm: Annotated[bool, Absent(False)]
    initialization: Literal["paper", "uniform"]
    init_scale: Annotated[float, Range(0, 1000, above=True)]
    tie: Annotated[Literal["none", "target", "all"], Absent("none")]
    dropout: Share
    embedding_dropout: Annotated[Share | None, Absent(None)]
    readout_dropout: Annotated[Share | None, Absent(None)]
    annotation_dropout: Annotated[Share, Absent(0.0)]
    state_dropout: Annotated[Share, Absent(0.0)]
    variational: Annotated[bool, Absent(False)]
    src_word_dropout: Annotated[Share, Absent(0.0)]
    tgt_word_dropout: Annotated[Share, Absent(0.0)]


@dataclass(frozen=True)
class OptimizerConfig:
    """The update rule. Settings that a rule does not have are null."""

    name: Literal["adam", "adamw", "adadelta"]
    lr: Positive
    beta1: Decay | None
    beta2: Decay | None
    rho: Decay | None
    eps: Positive
    weight_decay: NotNegative
    clip_norm: Positive | None


@dataclass(frozen=True)
class SchedulerConfig:
    """How the learning rate changes. Settings that a schedule does not have are null."""

    name: Literal["constant", "inverse_sqrt", "plateau"]
    warmup_steps: CountOrZero
    factor: Annotated[float, Range(0, 1, above=True)] | None
    patience: CountOrZero | None
    min_lr: NotNegative | None
    return_to_best: Annotated[bool, Absent(False)]


@dataclass(frozen=True)
class BatchesConfig:
    """How training pairs are grouped: a batch holds at most max_tokens positions, padding included, on its longer side.

    With sampling above 0 the texts are cut into pieces anew in each epoch; max_tokens counts the pieces that they are cut into.
    """

    max_tokens: Count
    accumulate: Count
    sampling: Annotated[float, Range(0, 1), Absent(0.0)]


@dataclass(frozen=True)
class TrainerConfig:
    """When training validates, saves and stops; null means never."""

    max_steps: Count | None
    max_epochs: Count | None
    max_minutes: Positive | None
    patience: Count | None
    metric: Metric
    valid_every_steps: Count
    valid_beam_size: Beam
    save_every_steps: Count
    log_every_steps: Count
    keep: CountOrZero
    average: Annotated[CountOrZero, Absent(0)]
    ema_decay: Annotated[Decay | None, Absent(None)]
    label_smoothing: Annotated[float, Range(0, 0.9)]
    r_drop: Annotated[float, Range(0, 100), Absent(0.0)]
    risk_after: Annotated[CountOrZero | None, Absent(None)]
    risk_samples: Annotated[int, Range(2, 1000), Absent(6)]
    risk_temperature: Annotated[Positive, Absent(1.0)]
    risk_lr: Annotated[Positive, Absent(1e-4)]
    samples: CountOrZero
    max_skipped: Annotated[Count, Absent(10)]


@dataclass(frozen=True)
class DecodeConfig:
    """Beam search, or sampling where temperature is above 0; score = log probability / length ** length_penalty + coverage.

    coverage = coverage_penalty × Σ_j log min(attention that source position j got, 1).
    """

    beam_size: Beam
    length_penalty: Annotated[float, Range(0, 10)]
    coverage_penalty: Annotated[float, Range(0, 10), Absent(0.0)]
    max_length_ratio: Annotated[float, Range(0, 1000, above=True)]
    max_length_extra: Annotated[int, Range(0, 100_000)]
    max_source_pieces: Count
    temperature: NotNegative
    top_k: CountOrZero
    seed: Seed
    batch_size: Count
    precision: Precision


@dataclass(frozen=True)
class RunConfig:
    """What belongs to one run and not to the experiment."""

    name: FilePath
    folder: FilePath
    seed: Seed
    threads: Threads | None
    device: Device
    changed_text: Annotated[Literal["refuse", "restart_epoch"], Absent("refuse")]


@dataclass(frozen=True)
class PrepareConfig:
    """Everything that `nmt prepare` reads."""

    data: DataConfig
    filter: FilterConfig
    tokenizer: TokenizerConfig


@dataclass(frozen=True)
class CheckDataConfig:
    """Everything that `nmt check-data` reads: two files, or all the text of a data configuration."""

    data: DataConfig | None
    src: FilePath | None
    tgt: FilePath | None
    src_lang: str | None
    tgt_lang: str | None
    filter: FilterConfig
    json: bool


@dataclass(frozen=True)
class TrainConfig:
    """Everything that `nmt train` reads, and what a checkpoint remembers."""

    data: DataConfig
    filter: FilterConfig
    tokenizer: TokenizerConfig
    model: ModelConfig
    optimizer: OptimizerConfig
    scheduler: SchedulerConfig
    batches: BatchesConfig
    trainer: TrainerConfig
    decode: DecodeConfig
    run: RunConfig
    precision: Precision
    finetune_from: Annotated[FilePath | None, Absent(None)]


@dataclass(frozen=True)
class MachineConfig:
    """What the commands that do not train may use of the machine."""

    threads: Threads | None
    device: Device


@dataclass(frozen=True)
class EvaluateConfig:
    """Everything that `nmt evaluate` reads. A setting of `decode` that is null is the (first) checkpoint's own."""

    checkpoint: FileNames | None
    data: DataConfig | None
    split: Literal["valid", "test"] | None
    src: FileName | None
    ref: FileNames | None
    hyp: FileName | None
    testset: str | None
    src_lang: str | None
    tgt_lang: str | None
    output: FileName | None
    decode: Annotated[dict[str, Any], Partly(DecodeConfig)]
    run: MachineConfig


@dataclass(frozen=True)
class TranslateConfig:
    """Everything that `nmt translate` reads. A setting of `decode` that is null is the (first) checkpoint's own."""

    checkpoint: FileNames
    input: FileName | None
    output: FileName | None
    stream: bool
    format: Literal["text", "jsonl"]
    nbest: Beam
    attention: FileName | None
    attention_format: Literal["png", "svg"]
    workers: Workers
    decode: Annotated[dict[str, Any], Partly(DecodeConfig)]
    run: MachineConfig


@dataclass(frozen=True)
class AverageConfig:
    """Everything that `nmt average` reads."""

    checkpoints: FilePaths
    output: FileName


@dataclass(frozen=True)
class InfoConfig:
    """Everything that `nmt info` reads."""

    checkpoint: FileName
