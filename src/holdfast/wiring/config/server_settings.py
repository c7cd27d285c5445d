"""The settings of a server: a struct of plain values, and a table that gives the purpose of each.

The settings file, the environment, the flags of `holdfast server`, `--show-settings` and the reference of settings are
all made from the table. No setting contains a secret: some name a file with one.

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
    """All settings of a server. `sources.completed` derives empty texts from the others."""

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
    schedulers: int = 1
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
    """One setting: how it is written, its purpose, and the effect of a wrong value."""

    field: str
    form: SettingType
    why: str
    otherwise: str
    choices: tuple[str, ...] = ()
    #: Its default, if that is derived from other settings.
    made: str = ""

    @property
    def key(self) -> str:
        """The key in the file: `tlsCertificate`."""
        first, *rest = self.field.split("_")
        return first + "".join(word.capitalize() for word in rest)

    @property
    def variable(self) -> str:
        """The variable in the environment: `HOLDFAST_SERVER_TLS_CERTIFICATE`.

        A server must not use `HOLDFAST_REGION` and the like, which belong to the command line.
        """
        return f"{PREFIX}{self.field.upper()}"

    @property
    def flag(self) -> str:
        """The flag on the command line: `--tls-certificate`."""
        return "--" + self.field.replace("_", "-")


SETTINGS: tuple[Setting, ...] = (
    Setting("role", SettingType.TEXT, "The ledger of this server: the platform's or a region's.",
            "Without it the server does not start.", ROLES),
    Setting("region", SettingType.TEXT, "The region of this server. The first batch of its log contains the name.",
            "The server does not start on a store with another ledger's log, so no region acts for another."),
    Setting("data", SettingType.FOLDER, "The server's data folder: store, ready file, operator's token.",
            "A second server on the same folder does not start while the first has the store open.",
            made="`holdfast/REGION` or `holdfast/platform` in `XDG_DATA_HOME` or `~/.local/share`"),
    Setting("store", SettingType.TEXT, "The log's store: `sqlite:PATH` (relative to the data folder) or `memory:`.",
            "With `memory:` all data is lost when the process ends."),
    Setting("listen", SettingType.TEXT, "The address and port on which the server listens.",
            "If the port is in use, the server does not start and names the port."),
    Setting("advertise", SettingType.TEXT, "The URL at which other servers, agents and clients reach this server.",
            "A wrong URL makes the server unreachable. An address such as 0.0.0.0 is rejected.",
            made="`http://` or `https://` and `listen`"),
    Setting("reached_at", SettingType.NAMES, "Other URLs of this server, such as that of a load balancer.",
            "Servers sign each message for one URL; a message that arrives at an unlisted URL is refused."),
    Setting("name", SettingType.TEXT, "The server's name in the log and among its peers.",
            "Followers forward commands to the URL in the leader's name; any other name prevents that.",
            made="`advertise`"),
    Setting("platform", SettingType.NAMES,
            "URLs of the platform's servers, such as `https://server-1.example:7400`.",
            "Without one a region receives no workloads and grants; its server does not start."),
    Setting("token_file", SettingType.FILE, "The file with the region's bearer token for the platform.",
            "A file that other users can read is rejected, since its token gives the region's permissions."),
    Setting("scheduler", SettingType.TEXT,
            "`beside`: a region's leader schedules. `none`: `holdfast scheduler` does.",
            "With `none` and no `holdfast scheduler`, nothing is placed; with both, they divide the work.", SCHEDULERS),
    Setting("schedulers", SettingType.COUNT, "How many schedulers run beside a region's leader, at most 16.",
            "They share the leader's processor: more of them place no more. Run `holdfast scheduler` for that."),
    Setting("operator", SettingType.TEXT,
            "The first operator, recorded in a new log. Later changes are made through objects.",
            "A name other than the one in the log has no permissions, and gets no token."),
    Setting("bootstrap_file", SettingType.FILE, "The file for the operator's first token, readable by its owner only.",
            "If the file is lost, restart the server: it writes a new token.",
            made="`operator.token` in the data folder of a platform server"),
    Setting("bootstrap_life", SettingType.DURATION,
            "The lifetime of that token. After its end, the next start makes a new one.",
            "Too long: a copy of the file stays usable. Create your own tokens and revoke this one."),
    Setting("tls_certificate", SettingType.FILE, "The server's certificate with its chain, PEM.",
            "Without TLS tokens can be read on the network, so the server listens on loopback only."),
    Setting("tls_key", SettingType.FILE, "The private key of that certificate, PEM.",
            "The server does not start with only one of certificate and key."),
    Setting("tls_trust", SettingType.FILE,
            "Trusted authorities, for certificates of peers and of clients, PEM.",
            "Without the authority of its peers, a server cannot connect to them."),
    Setting("tls_require_clients", SettingType.YES_NO,
            "Whether every client needs a certificate of a trusted authority.",
            "Without it a stolen token gives access; with it probes and browsers need a certificate too."),
    Setting("insecure", SettingType.YES_NO, "Listen beyond loopback without TLS, on an otherwise protected network.",
            "Tokens are sent in the clear; a token that is read can be used until it is revoked."),
    Setting("body_bytes", SettingType.BYTES, "The largest body of a request.",
            "Too large: a few clients fill the memory. Too small: large documents are rejected with 413."),
    Setting("batch_items", SettingType.COUNT, "Largest number of documents in one batch request.",
            "Too many: one request delays other operators' commands."),
    Setting("writes_per_second", SettingType.COUNT,
            "Commands per second of one operator. A tenant's rate is its `submitsPerMinute`.",
            "Too many: one script delays all others. Too few: CI rollouts are rejected with 429."),
    Setting("writes_burst", SettingType.COUNT, "How many commands may arrive at once before the rate applies.",
            "Smaller than the number of documents in an applied file: the last ones must be retried."),
    Setting("lists_at_a_time", SettingType.COUNT, "Largest number of concurrent lists.",
            "Too many: lists of large tables delay commits. Too few: dashboards are rejected with 429."),
    Setting("list_items", SettingType.COUNT, "Largest number of objects in one page of a list.",
            "Too many: one page delays other requests."),
    Setting("watches", SettingType.COUNT, "Largest number of open watches; the limit of machines' streams is the same.",
            "Too many: each uses memory for changes that its reader has not read yet."),
    Setting("connections", SettingType.COUNT,
            "Largest number of connections, bounded by the open-file limit of the process.",
            "Too many: each uses memory. Too few: agents and watches are rejected."),
    Setting("caller_connections", SettingType.COUNT, "Connections of one caller, at most; one more closes its oldest.",
            "Too many: one caller displaces the others. Too few: its own watches close one another."),
    Setting("stranger_connections", SettingType.COUNT, "Unauthenticated connections of one address, at most.",
            "Too many: idle connections fill the memory. Too few: agents behind one address retry for long."),
    Setting("timeout", SettingType.DURATION, "The time limit of a request that sets none.",
            "Too short: requests fail while the store is slow, and clients retry."),
    Setting("timeout_most", SettingType.DURATION, "The longest time limit that a request may set.",
            "Too long: requests of clients that have disconnected keep waiting."),
    Setting("log_level", SettingType.TEXT, "The lowest level of log lines that the server writes.",
            "`error` omits why a server stepped down; with `debug` files grow fast.", LEVELS),
    Setting("log_form", SettingType.TEXT, "The format of log lines: plain text, or one JSON object per line.",
            "A log collector that expects the other format stores lines without their fields.", LOG_FORMS),
    Setting("ledger", SettingType.PAIRS,
            "Ledger settings of a new log, such as `sessionLease=10s`; others ignore them.",
            "An unsafe set is rejected, with all reasons. To change an existing log, send the command `Configure`."),
    Setting("retention", SettingType.DURATION,
            "How long the log, the audit and decisions are retained.",
            "Too short: slow readers list again, and old decisions cannot be explained. Too long: the disk fills."),
    Setting("snapshot_bytes", SettingType.BYTES,
            "A snapshot is taken after this much log, at least as much as the last one's size.",
            "Too much: a start reads all of it. Too little: snapshots keep the disk busy."),
    Setting("snapshot_batches", SettingType.COUNT, "A snapshot is taken after at most this many batches.",
            "Too many: a start folds all of them. Too few: a small state is written repeatedly."),
    Setting("decisions_bytes", SettingType.BYTES,
            "Disk space for a region's decision index; the oldest decisions are removed first.",
            "Too little: decisions are removed before `retention` ends. Too much: less disk for the log."),
    Setting("audit_bytes", SettingType.BYTES,
            "Disk space for the audit; the principal that uses most loses its oldest entries first.",
            "Too little: entries are removed before `retention` ends. Too much: less disk for the log."),
)  # fmt: skip

BY_FIELD: dict[str, Setting] = {setting.field: setting for setting in SETTINGS}
