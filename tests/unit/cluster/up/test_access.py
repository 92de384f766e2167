"""Who may do what: roles and bindings, users of certificates, what a request asks for."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from cryptography import x509

from regauge.cluster.access.bootstrap import bootstrap_roles
from regauge.cluster.access.certificates import new_authority, new_client, new_server
from regauge.cluster.access.identity import MASTERS, Tokens, User, authenticated, user_of_certificate
from regauge.cluster.access.rbac import allowed
from regauge.cluster.access.requests import action_of, check, impersonated
from regauge.cluster.api import Api
from regauge.cluster.bootstrap import new_api_server
from regauge.host import RealClock
from regauge.kube import ApiError, Forbidden
from regauge.model.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NAMESPACE, ROLE, ROLE_BINDING
from regauge.model.rbac import Action

BOB = authenticated("bob", ["dev"])


@pytest.fixture
def api() -> Api:
    api = new_api_server(RealClock(), random.Random(1))
    bootstrap_roles(api)
    api.create(NAMESPACE, {"metadata": {"name": "other"}})
    return api


def bind(api: Api, subject: dict[str, Any], rule: dict[str, Any], namespace: str = "default") -> None:
    api.create(ROLE, {"metadata": {"name": "r"}, "rules": [rule]}, namespace)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    api.create(ROLE_BINDING, {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]}, namespace)


PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        ({"kind": "User", "name": "bob"}, BOB),
        ({"kind": "Group", "name": "dev"}, BOB),
        ({"kind": "ServiceAccount", "name": "robot"}, authenticated("system:serviceaccount:default:robot", [])),
        (
            {"kind": "ServiceAccount", "name": "robot", "namespace": "other"},
            authenticated("system:serviceaccount:other:robot", []),
        ),
    ],
)
def test_a_role_reaches_its_subjects_in_its_namespace(api: Api, subject: dict[str, Any], user: User) -> None:
    store = api.state.store
    assert not allowed(store, user, Action("get", "", "pods", namespace="default"))
    bind(api, subject, PODS)
    assert allowed(store, user, Action("get", "", "pods", namespace="default", name="a"))
    for no in (
        Action("delete", "", "pods", namespace="default"),
        Action("get", "apps", "pods", namespace="default"),
        Action("get", "", "pods", "log", namespace="default"),
        Action("get", "", "secrets", namespace="default"),
        Action("get", "", "pods", namespace="other"),
        Action("list", "", "pods"),
    ):
        assert not allowed(store, user, no), no
    assert not allowed(store, authenticated("eve", ["ops"]), Action("get", "", "pods", namespace="default"))


@pytest.mark.parametrize(
    ("rule", "action", "yes"),
    [
        ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, Action("x", "any", "thing", "sub", "default"), True),
        (
            {"apiGroups": [""], "resources": ["pods/*"], "verbs": ["get"]},
            Action("get", "", "pods", "log", "default"),
            False,
        ),
        (
            {"apiGroups": [""], "resources": ["*/log"], "verbs": ["get"]},
            Action("get", "", "pods", "log", "default"),
            True,
        ),
        (
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]},
            Action("get", "", "pods", "", "default", "b"),
            False,
        ),
        (
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]},
            Action("get", "", "pods", "", "default", "a"),
            True,
        ),
    ],
)
def test_what_a_rule_means(api: Api, rule: dict[str, Any], action: Action, yes: bool) -> None:
    bind(api, {"kind": "User", "name": "bob"}, rule)
    assert allowed(api.state.store, BOB, action) is yes


def test_cluster_roles_aggregate_and_paths_are_matched(api: Api) -> None:
    selectors = [{"matchLabels": {"give": "bob"}}]
    api.create(CLUSTER_ROLE, {"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": selectors}})
    part = {"metadata": {"name": "part", "labels": {"give": "bob"}}, "rules": [PODS]}
    api.create(CLUSTER_ROLE, part)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sum"}
    subjects = [{"kind": "User", "name": "bob"}]
    api.create(CLUSTER_ROLE_BINDING, {"metadata": {"name": "b"}, "roleRef": reference, "subjects": subjects})
    store = api.state.store
    assert allowed(store, BOB, Action("list", "", "pods"))
    assert allowed(store, BOB, Action("get", path="/apis/apps/v1")) and not allowed(
        store, BOB, Action("get", path="/logs")
    )
    assert allowed(store, User("x", (MASTERS,)), Action("delete", "any", "thing"))


@pytest.mark.parametrize(
    ("method", "path", "query", "action"),
    [
        ("GET", "/api/v1/pods", {}, Action("list", "", "pods")),
        ("GET", "/api/v1/pods", {"watch": "1"}, Action("watch", "", "pods")),
        ("GET", "/api/v1/namespaces/a", {}, Action("get", "", "namespaces", "", "a", "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", {}, Action("update", "", "namespaces", "finalize", "a", "a")),
        ("GET", "/api/v1/namespaces/a/pods/p/log", {}, Action("get", "", "pods", "log", "a", "p")),
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments", {}, Action("deletecollection", "apps", "deployments", "", "a")),
        ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d/scale", {},
         Action("patch", "apps", "deployments", "scale", "a", "d")),
        ("GET", "/apis/apps/v1", {}, Action("get", path="/apis/apps/v1")),
        ("GET", "//api//v1//pods", {}, Action("list", "", "pods")),
    ],
)  # fmt: skip
def test_what_a_request_asks_for(method: str, path: str, query: dict[str, str], action: Action) -> None:
    assert action_of(method, path, query) == action


def test_impersonation_takes_permission(api: Api) -> None:
    store = api.state.store
    with pytest.raises(Forbidden, match='cannot impersonate resource "users"'):
        impersonated(store, BOB, "alice", [])
    assert impersonated(store, User("root", (MASTERS,)), "alice", ["a"]) == authenticated("alice", ["a"])
    with pytest.raises(ApiError):
        impersonated(store, BOB, "", ["system:masters"])
    with pytest.raises(Forbidden, match='User "bob" cannot list resource "pods" in API group "" at the cluster scope'):
        check(store, BOB, Action("list", "", "pods"))


def test_certificates_say_who_one_is() -> None:
    now = time.time()
    authority = new_authority("a", now)
    client, server = new_client(authority, "bob", ["dev", "ops"], now), new_server(authority, ["127.0.0.1"], now)
    read = x509.load_pem_x509_certificate(client.certificate)
    read.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
    assert {item.value for item in read.subject} == {"bob", "dev", "ops"}
    names = x509.load_pem_x509_certificate(server.certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert [str(item) for item in names.value.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    subject = ((("organizationName", "dev"),), (("commonName", "bob"),))
    assert user_of_certificate({"subject": subject}) == BOB
    assert (
        user_of_certificate({}) is None
        and user_of_certificate({"subject": ((("organizationName", MASTERS),),)}) is None
    )


def test_an_empty_token_is_nobody() -> None:
    tokens = Tokens({"": BOB, "secret": BOB})
    assert tokens.user("secret") == BOB and tokens.user("") is None and tokens.user("secre") is None
