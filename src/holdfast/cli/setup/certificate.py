"""`holdfast certificate`: an authority of the operator's own, and certificates that it signs. It sends no request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.errors import CliError, usage_error
from holdfast.cli.options import GlobalOptions, parse_duration_option, print_note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat

app = make_app("Create an authority, sign certificates with it, and show them.", no_args_is_help=True)

#: Options for requests, which have no effect here.
ALONE = ("context", "server", "tenant", "region", "token_file", "timeout")

Out = Annotated[Path, typer.Option(metavar="DIR", help="Output folder.")]
Name = Annotated[str, typer.Option(metavar="NAME", help="Name of the files; default: that of the server or principal.")]
Life = Annotated[str, typer.Option(metavar="TIME", help="Validity, such as 30d.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
Authority = Annotated[Path, typer.Option(metavar="DIR", help="Folder of the authority.")]
Hosts = Annotated[
    list[str] | None, typer.Option(metavar="HOST", help="Name or address of the server; may be repeated.")
]
Principal = Annotated[str, typer.Option(metavar="NAME", help="The principal: agent/n1, person/oncall.")]
Wildcard = Annotated[bool, typer.Option("--wildcard", help="Allow a name with a *.")]
ServerPrincipal = Annotated[bool, typer.Option("--server-principal", help="Allow the principal of a region.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="A certificate, PEM.")]


@command(app, without=ALONE)
def authority(
    options: GlobalOptions, out: Out, name: Name = "holdfast", life: Life = "3650d", force: Force = False,
    output: OutputOption = OutputFormat.TEXT,
) -> None:  # fmt: skip
    """Create an authority: `holdfast certificate authority --out authority`.

    Anyone with its key can impersonate any principal. Keep the key where no server runs; other machines need only
    authority.pem.
    """
    from holdfast.wiring.certificate_authority import NotIssued, new_authority

    try:
        made = new_authority(out.expanduser(), name, _span(life), _now(), force=force)
    except NotIssued as error:
        raise _trouble(error) from None
    _tell(made.certificate, made.key, output)


@command(app, without=ALONE)
def issue(
    options: GlobalOptions, authority: Authority, out: Out = Path("."), server: Hosts = None, principal: Principal = "",
    name: Name = "", life: Life = "90d", wildcard: Wildcard = False, server_principal: ServerPrincipal = False,
    force: Force = False, output: OutputOption = OutputFormat.TEXT,
) -> None:  # fmt: skip
    """Sign a certificate for a server, an agent, a scheduler or a person, with a new key.

    With `--server HOST[,HOST...]` it identifies a server, with `--principal agent/n1` that principal.
    """
    from holdfast.wiring.certificate_authority import CertificateOptions, NotIssued, invalid_certificate_options
    from holdfast.wiring.certificate_authority import issue as sign

    hosts = tuple(one for said in server or () for one in said.replace(",", " ").split())
    wish = CertificateOptions(hosts, principal, _span(life), wildcard, server_principal)
    found = list(invalid_certificate_options(wish))
    if found:
        raise usage_error(f"nothing was signed: {found[0]}", lines=found[1:])
    try:
        made = sign(authority.expanduser(), out.expanduser(), name or wish.name, wish, _now(), force=force)
    except NotIssued as error:
        raise _trouble(error) from None
    _tell(made.certificate, made.key, output)


@command(app, without=ALONE)
def show(options: GlobalOptions, file: File, output: OutputOption = OutputFormat.TEXT) -> None:
    """Show the hosts and the principal of a certificate, its issuer, and its validity."""
    told = _told(file.expanduser())
    if not printer.print_structured(told, output):
        printer.print_data(printer.pairs([(_HEADINGS[key], _cell(value)) for key, value in told.items()]))


_HEADINGS = {
    "file": "File", "subject": "Subject", "hosts": "Hosts", "principal": "Principal", "issuer": "Issuer",
    "from": "From", "until": "Until", "daysLeft": "Days left", "authority": "Signs others",
    "fingerprint": "Fingerprint", "key": "Key",
}  # fmt: skip


def _told(file: Path) -> dict[str, Any]:
    from holdfast.transports.certificates import InvalidCertificate, certificate_facts

    try:
        facts = certificate_facts(file.read_bytes())
    except OSError as error:
        raise usage_error(f"{file} cannot be read: {error.strerror}") from None
    except InvalidCertificate as error:
        raise usage_error(
            f"{file} is not a certificate: {error}", "use the file that begins with BEGIN CERTIFICATE"
        ) from None
    left = (facts.ends - _now()).days
    return {
        "file": str(file),
        "subject": facts.subject,
        "hosts": list(facts.hosts),
        "principal": facts.principal,
        "issuer": facts.issuer,
        "from": _moment(facts.begins),
        "until": _moment(facts.ends),
        "daysLeft": left,
        "authority": facts.is_authority,
        "fingerprint": facts.fingerprint,
    }


def _tell(certificate: Path, key: Path, output: OutputFormat) -> None:
    told = {**_told(certificate), "key": str(key)}
    if not printer.print_structured(told, output):
        printer.print_data(f"{certificate}\n{key}")
        whom = told["principal"] or ", ".join(told["hosts"]) or told["subject"]
        print_note(
            f"{whom}: valid until {told['until']} ({told['daysLeft']} days); {key} is readable only by its owner"
        )


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) or "-" if isinstance(value, list) else str(value) or "-"


def _moment(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _span(life: str) -> timedelta:
    return timedelta(milliseconds=parse_duration_option(life, "--life"))


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _trouble(error: Exception) -> CliError:
    message, _, hint = str(error).partition("\nhint: ")
    return CliError(message, hint=hint)
