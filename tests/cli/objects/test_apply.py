"""`holdfast apply`, `diff`, `validate` and `delete`: what is done with files."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.host.ports.transport import NoAnswer
from tests.support.api.command_line import CommandLine, problem, same_as_golden

WEB = """\
apiVersion: holdfast/v1
kind: Workload
metadata:
  name: web
  tenant: shop
spec:
  replicas: 3
  priorityClass: ordinary
  template:
    command: [/usr/bin/web]
    need: {cpu: 500m, memory: 1Gi}
"""
TENANT = """\
apiVersion: holdfast/v1
kind: Tenant
metadata: {name: shop}
spec: {priorityClasses: [ordinary]}
"""
CLASS = """\
apiVersion: holdfast/v1
kind: PriorityClass
metadata: {name: ordinary}
spec: {priority: 100}
"""
ALL = "---\n".join([WEB, TENANT, CLASS])


# apply


def test_objects_are_created_then_unchanged_then_configured(holdfast: CommandLine) -> None:
    file = holdfast.write("all.yaml", ALL)
    same_as_golden("apply_created", holdfast("apply", "-f", file))
    same_as_golden("apply_unchanged", holdfast("apply", "-f", file))
    holdfast.write("all.yaml", ALL.replace("replicas: 3", "replicas: 5"))
    assert "workload/shop/web configured\n" in holdfast("apply", "-f", file).stdout


def test_what_others_refer_to_is_sent_first(holdfast: CommandLine) -> None:
    holdfast("apply", "-f", holdfast.write("all.yaml", ALL))
    sent = msgspec.json.decode(holdfast.platform.asked[-1].body)["items"]
    assert [item["kind"] for item in sent] == ["PriorityClass", "Tenant", "Workload"]


def test_stdin_folders_json_and_several_files_are_read(holdfast: CommandLine) -> None:
    holdfast.write("folder/a.yaml", TENANT)
    holdfast.write("folder/b.json", msgspec.json.encode({"apiVersion": "holdfast/v1", "kind": "PriorityClass",
        "metadata": {"name": "ordinary"}, "spec": {"priority": 7}}).decode())  # fmt: skip
    holdfast.write("folder/notes.txt", "not for you")
    holdfast.write("folder/deeper/c.yaml", WEB)
    flat = holdfast("apply", "-f", "folder")
    assert flat.stdout.split() == ["priorityclass/ordinary", "created", "tenant/shop", "created"]
    deep = holdfast("apply", "-R", "-f", "folder")
    assert "workload/shop/web created" in deep.stdout
    piped = holdfast("apply", "-f", "-", stdin=WEB.replace("name: web", "name: mail"))
    assert piped.stdout == "workload/shop/mail created\n"


def test_what_get_prints_can_be_applied(shop: CommandLine) -> None:
    text = shop("get", "workloads", "-o", "yaml").stdout
    done = shop("apply", "-f", "-", stdin=text)
    assert (done.exit_code, done.stdout.count("unchanged")) == (0, 3)


def test_a_dry_run_changes_nothing(holdfast: CommandLine) -> None:
    done = holdfast("apply", "--dry-run", "-f", holdfast.write("all.yaml", ALL))
    assert "workload/shop/web created (dry run)\n" in done.stdout
    assert holdfast.platform.objects == {}


def test_the_tenant_of_the_context_is_meant_where_none_is_named(holdfast: CommandLine) -> None:
    file = holdfast.write("web.yaml", WEB.replace("  tenant: shop\n", ""))
    assert holdfast("apply", "-f", file, "--tenant", "bank").stdout == "workload/bank/web created\n"
    done = holdfast("apply", "-f", file)
    assert done.exit_code == 2
    assert "web.yaml:1: workload/web: no tenant given" in done.stderr


@pytest.mark.parametrize("command", ["apply", "diff"])
def test_a_region_is_not_named_for_what_the_platform_keeps(command: str, holdfast: CommandLine) -> None:
    done = holdfast(command, "-f", holdfast.write("web.yaml", WEB), "--region", "eu")
    assert (done.exit_code, holdfast.platform.asked) == (2, [])
    assert "web.yaml:1: --region eu: workload/shop/web is stored by the platform" in done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("apply_unknown_field", ALL.replace("  replicas: 3", "  replica: 3")),
        ("apply_unknown_kind", ALL.replace("kind: Tenant", "kind: Tennant")),
        ("apply_bad_quantity", ALL.replace("cpu: 500m", "cpu: lots")),
        ("apply_twice", ALL + "---\n" + TENANT),
        ("apply_key_twice", ALL.replace("  replicas: 3\n", "  replicas: 3\n  replicas: 4\n")),
        ("apply_no_name", ALL.replace("metadata: {name: shop}", "metadata: {}")),
        ("apply_contradiction", ALL.replace("  replicas: 3", "  replicas: 3\n  exclusive: true\n  failover: additive")),
    ],
)
def test_one_unreadable_document_stops_all_before_anything_is_sent(name: str, text: str, holdfast: CommandLine) -> None:
    done = holdfast("apply", "-f", holdfast.write("all.yaml", text))
    assert done.exit_code == 2
    assert holdfast.platform.asked == []
    same_as_golden(name, done)


def test_a_text_that_is_no_yaml_is_named_with_its_line(holdfast: CommandLine) -> None:
    done = holdfast("apply", "-f", holdfast.write("all.yaml", ALL + "---\nkind: [\n"))
    assert (done.exit_code, holdfast.platform.asked) == (2, [])
    assert "  all.yaml:24: " in done.stderr


def test_an_unchecked_document_is_judged_by_the_server_alone(holdfast: CommandLine) -> None:
    fault = {"pointer": "/spec/newer", "detail": "unknown field", "hint": "did you mean older?"}
    holdfast.platform.answers["PUT", "/v1/workloads/shop/web"] = problem(400, "malformed", "not so", errors=[fault])
    text = WEB.replace("  replicas: 3", "  newer: 1\n  replicas: 3")
    done = holdfast("apply", "--unchecked", "-f", holdfast.write("web.yaml", text))
    same_as_golden("apply_unchecked", done)


def test_a_refused_object_does_not_stop_the_others_and_the_end_is_1(holdfast: CommandLine) -> None:
    refusal = problem(409, "in-use", "the class is used by 3 workloads", hint="holdfast get workloads -A")
    holdfast.platform.answers["PUT", "/v1/priorityclasses/ordinary"] = refusal
    same_as_golden("apply_refused", holdfast("apply", "-f", holdfast.write("all.yaml", ALL)))


def test_a_denied_object_ends_with_3(holdfast: CommandLine) -> None:
    holdfast.platform.answers["PUT", "/v1/tenants/shop"] = problem(403, "no-right", "operate is needed")
    done = holdfast("apply", "-f", holdfast.write("all.yaml", ALL))
    assert done.exit_code == 3
    assert "workload/shop/web created" in done.stdout


def test_an_unknown_outcome_ends_with_5_and_says_how_to_go_on(holdfast: CommandLine) -> None:
    holdfast.platform.answers["POST", "/v1/batch"] = NoAnswer("the connection broke")
    same_as_golden("apply_unknown", holdfast("apply", "--timeout", "1s", "-f", holdfast.write("web.yaml", WEB)))


def test_an_unreachable_server_ends_with_4(holdfast: CommandLine) -> None:
    holdfast.platform.unreachable = True
    same_as_golden("apply_unreachable", holdfast("apply", "--timeout", "1s", "-f", holdfast.write("web.yaml", WEB)))


@pytest.mark.parametrize("words", [[], ["-f", "none.yaml"], ["-f", "empty"]])
def test_a_file_that_is_not_there_is_wrong_usage(words: list[str], holdfast: CommandLine) -> None:
    (holdfast.folder / "empty").mkdir()
    done = holdfast("apply", *words)
    assert (done.exit_code, done.stdout) == (2, "")


@pytest.mark.parametrize("command", ["apply", "diff", "validate"])
def test_nothing_at_all_is_no_success(command: str, holdfast: CommandLine) -> None:
    """A pipe whose first half failed brings nothing."""
    done = holdfast(command, "-f", "-", stdin="# only a remark\n")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", "error: no document in stdin\n")


@pytest.mark.parametrize(("code", "said"), [("priority", "holdfast get tenants"), ("contradictory", "schema workload")])
def test_a_refusal_names_the_next_command(code: str, said: str, holdfast: CommandLine) -> None:
    holdfast.platform.answers["PUT", "/v1/workloads/shop/web"] = problem(422, code, "not so")
    done = holdfast("apply", "-f", holdfast.write("web.yaml", WEB))
    assert done.exit_code == 1
    assert said in done.stderr.partition("hint: ")[2]


def test_what_is_no_text_is_wrong_usage(holdfast: CommandLine) -> None:
    (holdfast.folder / "noise.yaml").write_bytes(b"\xff\xfe\x00")
    done = holdfast("apply", "-f", "noise.yaml")
    assert done.exit_code == 2
    assert "noise.yaml: " in done.stderr


def test_aliases_without_end_are_refused(holdfast: CommandLine) -> None:
    done = holdfast("apply", "-f", holdfast.write("loop.yaml", "kind: Tenant\nmetadata: &a {name: x, b: *a}\n"))
    assert done.exit_code == 2
    assert "loop.yaml:2: " in done.stderr


def test_words_that_look_like_other_types_stay_texts(holdfast: CommandLine) -> None:
    text = TENANT.replace("{name: shop}", "{name: shop, labels: {a: yes, b: 010, c: 2026-11-15, d: 1:30}}")
    holdfast("apply", "-f", holdfast.write("tenant.yaml", text))
    labels = holdfast.platform.objects["tenants", "shop"]["metadata"]["labels"]
    assert labels == {"a": "yes", "b": "010", "c": "2026-11-15", "d": "1:30"}


# validate


def test_valid_files_are_told_one_by_one_and_no_server_is_asked(holdfast: CommandLine) -> None:
    holdfast.platform.unreachable = True
    same_as_golden("validate_valid", holdfast("validate", "-f", holdfast.write("all.yaml", ALL)))
    assert holdfast.platform.asked == []


def test_what_is_not_valid_has_its_line_and_the_others_are_told_too(holdfast: CommandLine) -> None:
    text = ALL.replace("  replicas: 3", "  replica: 3").replace("priority: 100", "priority: high")
    same_as_golden("validate_faults", holdfast("validate", "-f", holdfast.write("all.yaml", text)))


# diff


def test_a_diff_shows_what_would_change_and_ends_as_diff_does(holdfast: CommandLine) -> None:
    holdfast("apply", "-f", holdfast.write("web.yaml", WEB))
    file = holdfast.write("web.yaml", WEB.replace("replicas: 3", "replicas: 5"))
    done = holdfast("diff", "-f", file)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["--- now: workload/shop/web", "+++ then: workload/shop/web"]
    assert [line for line in lines[2:] if line[0] in "+-"] == ["-  replicas: 3", "+  replicas: 5"]
    assert done.exit_code == 1
    assert holdfast.platform.objects["workloads", "shop/web"]["spec"]["replicas"] == 3


def test_a_diff_of_something_new_is_all_of_it(holdfast: CommandLine) -> None:
    done = holdfast("diff", "-f", holdfast.write("tenant.yaml", TENANT))
    assert done.exit_code == 1
    assert "+  name: shop" in done.stdout.splitlines()
    assert all(line[0] == "+" for line in done.stdout.splitlines()[3:])


def test_no_difference_ends_with_0(holdfast: CommandLine) -> None:
    file = holdfast.write("all.yaml", ALL)
    holdfast("apply", "-f", file)
    done = holdfast("diff", "-f", file)
    assert (done.exit_code, done.stdout) == (0, "")


@pytest.mark.parametrize("trouble", ["unreachable", "refused", "unreadable"])
def test_a_diff_that_cannot_be_told_ends_with_2(trouble: str, holdfast: CommandLine) -> None:
    holdfast.platform.unreachable = trouble == "unreachable"
    if trouble == "refused":
        holdfast.platform.answers["PUT", "/v1/workloads/shop/web"] = problem(409, "over-quota", "too much")
    text = "kind: [" if trouble == "unreadable" else WEB
    done = holdfast("diff", "--timeout", "1s", "-f", holdfast.write("web.yaml", text))
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")


# delete


def test_objects_are_removed_by_name(shop: CommandLine) -> None:
    done = shop("delete", "workload", "shop/web")
    assert (done.exit_code, done.stdout) == (0, "workload/shop/web deleted\n")
    assert ("workloads", "shop/web") not in shop.platform.objects


def test_what_is_not_there_ends_with_1_unless_that_is_fine(shop: CommandLine) -> None:
    done = shop("delete", "workload/shop/none")
    assert done.exit_code == 1
    assert "hint: `holdfast get workloads --tenant shop` lists them" in done.stderr
    assert shop("delete", "workload/shop/none", "--ignore-not-found").exit_code == 0


def test_an_object_that_is_held_is_told_to_be_deleting(shop: CommandLine) -> None:
    web = shop.platform.objects["workloads", "shop/web"]
    held = {**web, "metadata": {**web["metadata"], "deletion": {"by": "person/oncall", "at": "2026-11-15T17:00:00Z"}}}
    shop.platform.answers["DELETE", "/v1/workloads/shop/web"] = held
    assert shop("delete", "wl/shop/web").stdout == "workload/shop/web deleting\n"


def test_several_objects_are_removed_only_by_somebody_who_says_so(shop: CommandLine) -> None:
    done = shop("delete", "workloads", "shop/web", "shop/mail")
    assert done.exit_code == 2
    assert "hint: confirm with --yes" in done.stderr
    assert len(shop.platform.objects) == 3
    assert shop("delete", "workloads", "shop/web", "shop/mail", "--yes").exit_code == 0


def test_the_objects_of_a_file_go_in_the_other_order(holdfast: CommandLine) -> None:
    file = holdfast.write("all.yaml", ALL)
    holdfast("apply", "-f", file)
    same_as_golden("delete_file", holdfast("delete", "-f", file, "--yes"))
    assert holdfast.platform.objects == {}


def test_waiting_for_the_end_watches_until_it_is_gone(shop: CommandLine) -> None:
    done = shop("delete", "workload", "shop/web", "--wait")
    assert done.exit_code == 0
    assert "workload/shop/web was deleted" in done.stderr


def test_what_was_not_removed_is_not_waited_for(shop: CommandLine) -> None:
    shop.platform.answers["DELETE", "/v1/workloads/shop/web"] = problem(409, "in-use", "it is used")
    done = shop("delete", "workloads", "shop/web", "shop/mail", "--yes", "--wait")
    assert done.exit_code == 1
    assert done.stdout == "workload/shop/mail deleted\n"
    assert "workload/shop/mail was deleted" in done.stderr
    assert "within" not in done.stderr


def test_folders_within_folders_are_removed_too(holdfast: CommandLine) -> None:
    holdfast.write("folder/deeper/tenant.yaml", TENANT)
    holdfast("apply", "-R", "-f", "folder")
    assert holdfast("delete", "-R", "-f", "folder").stdout == "tenant/shop deleted\n"


def test_a_region_that_does_not_fit_one_of_them_keeps_all(shop: CommandLine) -> None:
    done = shop("delete", "workloads", "shop/web", "shop/mail", "--yes", "--region", "eu")
    assert (done.exit_code, shop.platform.asked) == (2, [])


@pytest.mark.parametrize("words", [[], ["workload"], ["workload", "web", "-f", "x.yaml"]])
def test_a_delete_names_what_it_means(words: list[str], holdfast: CommandLine) -> None:
    assert holdfast("delete", *words).exit_code == 2
