"""What one server is told: a struct of plain values, and a table that says of each why it is there.

The table is the one place: the settings file, the environment, the flags of `holdfast server`, `--show-settings` and
the reference in docs/reference/settings.md are all made from it. No setting holds a secret: some name a file that does.

Size: a table, one row for each setting with its reason and what goes wrong otherwise.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

ROLES = ("platform", "region")
LEVELS = ("debug", "info", "warning", "error")
LOG_FORMS = ("text", "json")
SCHEDULERS = ("beside", "none")

DAY_MS = 86_400_000
PREFIX = "HOLDFAST_SERVER_"


class ServerSettings(Struct, frozen=True, kw_only=True):
    """Everything that one server is told. An empty text: made from the others by `sources.completed`."""

    role: str = ""
    region: str = ""
    data: str = ""
    store: str = "sqlite:ledger"
    listen: str = "127.0.0.1:7400"
    advertise: str = ""
    reached_at: tuple[str, ...] = ()
    name: str = ""
    platform: tuple[str, ...] = ()
    token_file: str = ""
    scheduler: str = "beside"
    operator: str = "person/operator"
    bootstrap_file: str = ""
    bootstrap_life: int = 30 * DAY_MS
    tls_certificate: str = ""
    tls_key: str = ""
    tls_trust: str = ""
    tls_require_clients: bool = False
    insecure: bool = False
    body_bytes: int = 1 << 20
    batch_items: int = 1_000
    writes_per_second: int = 50
    writes_burst: int = 500
    lists_at_a_time: int = 64
    list_items: int = 1_000
    watches: int = 20_000
    connections: int = 30_000
    caller_connections: int = 5_000
    stranger_connections: int = 512
    timeout: int = 10_000
    timeout_most: int = 60_000
    log_level: str = "info"
    log_form: str = "text"
    ledger: tuple[tuple[str, str], ...] = ()
    retention: int = 7 * DAY_MS
    snapshot_bytes: int = 64 << 20
    snapshot_batches: int = 50_000
    decisions_bytes: int = 1 << 30
    audit_bytes: int = 256 << 20


class SettingType(StrEnum):
    """How a setting is written."""

    TEXT = "text"
    FILE = "file"
    FOLDER = "folder"
    COUNT = "count"
    BYTES = "bytes"
    DURATION = "duration"
    YES_NO = "yes or no"
    NAMES = "list"
    PAIRS = "pairs"


class Setting(Struct, frozen=True):
    """One setting: how it is written, why it is there, and what goes wrong when it is not as it should be."""

    field: str
    form: SettingType
    why: str
    otherwise: str
    choices: tuple[str, ...] = ()
    #: What it is if nobody says it, where that follows from others.
    made: str = ""

    @property
    def key(self) -> str:
        """In the file: `tlsCertificate`."""
        first, *rest = self.field.split("_")
        return first + "".join(word.capitalize() for word in rest)

    @property
    def variable(self) -> str:
        """In the environment: `HOLDFAST_SERVER_TLS_CERTIFICATE`.

        `HOLDFAST_REGION` and the like are the command line's: which region is asked. A server started in that shell
        must not take it for its own.
        """
        return f"{PREFIX}{self.field.upper()}"

    @property
    def flag(self) -> str:
        """On the command line: `--tls-certificate`."""
        return "--" + self.field.replace("_", "-")


SETTINGS: tuple[Setting, ...] = (
    Setting("role", SettingType.TEXT, "Which ledger this server runs: the platform's or a region's.",
            "The server does not start: it never guesses whose log it would begin.", ROLES),
    Setting("region", SettingType.TEXT, "The region that a region's server is for; its log begins with that name.",
            "A store that holds another ledger's log is refused, so that no region speaks as another."),
    Setting("data", SettingType.FOLDER, "The folder of this server: its store, its ready file, the operator's token.",
            "Two servers in one folder: the second is refused while the first holds the store.",
            made="`holdfast/REGION` or `holdfast/platform` in `XDG_DATA_HOME` or `~/.local/share`"),
    Setting("store", SettingType.TEXT, "Where the log is kept: `sqlite:PATH` (from the data folder on) or `memory:`.",
            "With `memory:` everything acknowledged is gone when the process ends."),
    Setting("listen", SettingType.TEXT, "The address and port on which requests are answered.",
            "A port that is taken: the server does not start, and names the port."),
    Setting("advertise", SettingType.TEXT, "The URL by which others reach this server.",
            "Others send to a URL that leads nowhere: an address such as 0.0.0.0 is refused.",
            made="`http://` or `https://` and `listen`"),
    Setting("reached_at", SettingType.NAMES, "Other URLs by which this server is reached, such as a load balancer's.",
            "Servers sign what they send for one URL: what comes by another one is refused, and nothing is done."),
    Setting("name", SettingType.TEXT, "The server's name in the log and to its peers.",
            "Followers forward commands to the leader by its name: one that is no URL of it cannot be forwarded to.",
            made="`advertise`"),
    Setting("platform", SettingType.NAMES,
            "URLs of the platform's servers, several of them; a region's server asks each.",
            "A region without one never hears of workloads and grants: it is refused at the start."),
    Setting("token_file", SettingType.FILE, "The file with the token by which a region speaks at the platform.",
            "Readable by others: refused, since whoever reads it can speak for the region."),
    Setting("scheduler", SettingType.TEXT,
            "Whether the leader of a region schedules, or others do: `holdfast scheduler`.",
            "With `none` and no other scheduler nothing is placed; with both, one is in the other's way.", SCHEDULERS),
    Setting("operator", SettingType.TEXT,
            "The first person who may operate: written into a new log, later only by objects.",
            "Another name than the log began with has no rights there: no token is made for it."),
    Setting("bootstrap_file", SettingType.FILE, "Where the operator's first token is put, readable by its owner alone.",
            "Lost: start the server again, and a new token is made and put there.",
            made="`operator.token` in the data folder, of a platform"),
    Setting("bootstrap_life", SettingType.DURATION,
            "How long that token is good; when it is over, the next start makes one.",
            "Too long: whoever copied the file may operate for as long. Make tokens of your own and revoke this one."),
    Setting("tls_certificate", SettingType.FILE, "The server's certificate with its chain, PEM.",
            "Without TLS every token on the wire can be read: only loopback may be listened on."),
    Setting("tls_key", SettingType.FILE, "The private key of that certificate, PEM.",
            "Certificate and key are only good together: one without the other is refused."),
    Setting("tls_trust", SettingType.FILE,
            "Authorities that are trusted: for peers asked, and for certificates of clients.",
            "Peers with a private authority's certificate are not believed, and nothing is asked of them."),
    Setting("tls_require_clients", SettingType.YES_NO,
            "Whether every client must show a certificate of a trusted authority.",
            "Without it a stolen token is enough; with it probes and browsers need a certificate too."),
    Setting("insecure", SettingType.YES_NO, "Listen beyond loopback without TLS: somebody else keeps the wire private.",
            "Tokens travel in the clear; whoever reads one can act with it until it is revoked."),
    Setting("body_bytes", SettingType.BYTES, "The largest body of a request.",
            "Too large: a few clients fill the memory. Too small: large documents are refused with 413."),
    Setting("batch_items", SettingType.COUNT, "Documents in one batch, at most.",
            "Too many: one request keeps the leader's lane for people busy for long."),
    Setting("writes_per_second", SettingType.COUNT,
            "Commands a second of one person; of a tenant: its `submitsPerMinute`.",
            "Too many: one script's loop takes the share of everybody else. Too few: rollouts of CI are told 429."),
    Setting("writes_burst", SettingType.COUNT, "How many of them may come at once before the rate counts.",
            "Smaller than a file that people apply: its last documents are told to come again."),
    Setting("lists_at_a_time", SettingType.COUNT, "Lists that are made at the same time.",
            "Too many: lists of large tables delay commits. Too few: dashboards are told 429."),
    Setting("list_items", SettingType.COUNT, "Objects in one page of a list, at most.",
            "Too many: one page takes long enough to delay others."),
    Setting("watches", SettingType.COUNT, "Watches that are open at the same time, and as many streams of machines.",
            "Too many: each takes memory for what its reader has not read yet."),
    Setting("connections", SettingType.COUNT,
            "Connections in all; never more than the files that the process may open.",
            "Too many: each takes memory. Too few: agents and watches are turned away."),
    Setting("caller_connections", SettingType.COUNT, "Connections of one caller; with one more its oldest ends.",
            "Too many: one caller takes the place of all others. Too few: its own watches end one another."),
    Setting("stranger_connections", SettingType.COUNT, "Connections of one address that have not proven yet who asks.",
            "Too many: whoever opens and leaves them takes memory. Too few: agents behind one address retry for long."),
    Setting("timeout", SettingType.DURATION, "How long a request may take that does not say.",
            "Too short: answers are lost while the store is slow, and clients ask again."),
    Setting("timeout_most", SettingType.DURATION, "The longest deadline that a request may ask for.",
            "Too long: requests of clients that are gone keep waiting."),
    Setting("log_level", SettingType.TEXT, "From which importance on this server writes what happens.",
            "At `error` one does not see why a server stepped down; at `debug` files grow fast.", LEVELS),
    Setting("log_form", SettingType.TEXT, "Lines for people, or one JSON object a line.",
            "A collector that expects the other form keeps lines without their fields.", LOG_FORMS),
    Setting("ledger", SettingType.PAIRS,
            "Numbers that a new log judges by, such as `sessionLease=10s`; only when it begins.",
            "An unsafe set is refused with every reason. For a log that has begun nothing changes: use `configure`."),
    Setting("retention", SettingType.DURATION,
            "How long the log, the audit and decisions are kept, to explain what happened.",
            "Too short: readers that lag list again, and old decisions cannot be explained. Too long: the disk fills."),
    Setting("snapshot_bytes", SettingType.BYTES,
            "After so much log, or as much as the last one had, a snapshot is taken.",
            "Too much: a start reads all of it. Too little: the disk is busy with snapshots."),
    Setting("snapshot_batches", SettingType.COUNT, "After so many batches a snapshot is taken, however small they are.",
            "Too many: a start folds all of them. Too few: a small log is written out again and again."),
    Setting("decisions_bytes", SettingType.BYTES,
            "The room that a region's server takes for decisions; the oldest go first.",
            "Too little: decisions are gone before their time. Too much: the log has less of the disk."),
    Setting("audit_bytes", SettingType.BYTES,
            "The room for what people did; who takes the most of it loses its oldest first.",
            "Too little: who did what is gone before its time. Too much: the log has less of the disk."),
)  # fmt: skip

BY_FIELD: dict[str, Setting] = {setting.field: setting for setting in SETTINGS}
