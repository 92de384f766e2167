"""The API server as one actor uses it, on the store in memory: `ClusterApi`, and the port of the client in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from regauge.cluster import events, podwrites
from regauge.cluster.admission.decoding import decoded
from regauge.cluster.admission.defaults import defaulted
from regauge.cluster.admission.pods import starting_status
from regauge.cluster.admission.quantities import canonical_quantities
from regauge.cluster.deletion import DeleteOptions, check_preconditions, deletion, gone_after_update
from regauge.cluster.managers import Manager
from regauge.cluster.patches import Typed, patched
from regauge.cluster.refusals import (
    already_exists,
    bad_request,
    conflict,
    failure,
    forbidden,
    internal_error,
    invalid,
    invalid_object,
    modified,
    not_found,
    other_uid,
)
from regauge.cluster.registry import prepared_for_create, prepared_for_update
from regauge.cluster.selecting import matcher
from regauge.cluster.server_state import ApiCall, ServerState
from regauge.cluster.store import Change, Key, copy_json, slot
from regauge.cluster.story import Verb
from regauge.kube import ApiError, ObjectList, PatchType, Version, WatchEvent
from regauge.model import Kind, Object
from regauge.model.kinds import NAMESPACE, POD

NAME_TRIES = 8
PROTECTED_NAMESPACES = ("default", "kube-public", "kube-system")
_SYSTEM_METADATA = ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


class Api:
    """`ClusterApi` for one actor. All actors of a cluster share one `ServerState`.

    `warnings` gathers what the caller is to be warned of. `program`: the actor is one of the cluster's own, which manages
    fields under its name where the server keeps that.
    """

    def __init__(
        self,
        state: ServerState,
        actor: str,
        component: str = "",
        *,
        manager: str = "",
        program: bool = False,
        dry_run: bool = False,
    ) -> None:
        self._state = state
        self._manager = manager
        self._program = program
        self._dry_run = dry_run
        self.warnings: list[str] = []
        self._store = state.store
        self._actor = actor
        self._component = component or actor

    @property
    def actor(self) -> str:
        return self._actor

    @property
    def state(self) -> ServerState:
        return self._state

    @property
    def component(self) -> str:
        """Who tells events; one program (the actor) may have several voices."""
        return self._component

    def as_actor(self, actor: str, component: str = "") -> Api:
        """The same API for another actor."""
        return Api(self._state, actor, component, program=True)

    def as_caller(self, actor: str, manager: str, *, dry_run: bool = False) -> Api:
        """The same API for a client: with a manager's name, who manages which fields is kept; dry runs write nothing."""
        return Api(self._state, actor, manager=manager, dry_run=dry_run)

    def version(self) -> Version:
        minor = ".".join(self._state.git_version.lstrip("v").split(".")[:2])
        return Version(self._state.git_version, minor)

    def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        found = self.find(kind, name, namespace)
        if found is None:
            raise not_found(kind, name)
        return found

    def find(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        return self._store.find(kind, self._key(kind, name, namespace))

    def list(self, kind: Kind, namespace: str = "") -> tuple[Object, ...]:
        return self._store.list(kind, namespace)

    def owned(self, kind: Kind, uid: str) -> tuple[Object, ...]:
        """The objects of a kind that the object with this uid controls, sorted by namespace and name."""
        return self._store.owned(kind, uid)

    def select(self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = "") -> ObjectList:
        """The objects that both selectors mean, with the revision at which this holds."""
        match = matcher(kind, label_selector, field_selector)
        items = tuple(item for item in self._store.list(kind, namespace) if match(item))
        return ObjectList(items, str(self._store.revision))

    def create(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        if subresource:
            return podwrites.create_subresource(self, kind, object_, namespace, subresource)
        new = self._incoming(kind, object_, namespace)
        metadata = new["metadata"]
        call = self._call("create", kind, metadata.get("name") or metadata.get("generateName") or "", new)
        self._fault(call)
        for field in _SYSTEM_METADATA:
            metadata.pop(field, None)
        if metadata.get("resourceVersion"):
            raise internal_error("resourceVersion should not be set on objects to be created")
        new = self._state.admission.before_create(self._store, kind, self._defaulted(kind, new, None))
        tries = NAME_TRIES if metadata.get("generateName") and not metadata.get("name") else 1
        for left in range(tries - 1, -1, -1):
            named = self._named(kind, new)
            key = self._key_of(kind, named)
            present = self._store.find(kind, key)
            if present is None or not left:
                break
        self._state.admission.at_create(self._store, kind, named)
        if present is not None:
            raise already_exists(kind, key[1], deleting=bool(present["metadata"].get("deletionTimestamp")))
        named = self._managed(kind, None, named, subresource)
        if self._dry_run:
            return named
        stored = self._store.put(kind, key, named)
        self._done(self._call("create", kind, key[1], named), None, stored)
        return stored

    def try_create(self, kind: Kind, object_: Object, namespace: str = "") -> Object:
        """What `create` would answer; nothing is written."""
        plain = Api(self._state, self._actor, self._component, manager=self._manager, dry_run=True)
        return plain.create(kind, object_, namespace)

    def _named(self, kind: Kind, object_: Object) -> Object:
        """With the metadata that the server fills in, as the kind's strategy stores it."""
        metadata = dict(object_["metadata"])
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = self._state.generated_name(metadata["generateName"])
        metadata["uid"] = self._state.new_uid()
        metadata["creationTimestamp"] = self._state.now()
        metadata.setdefault("name", "")
        new = prepared_for_create(kind, {**object_, "metadata": metadata})
        return {**new, "status": starting_status(new, self._state.now())} if kind == POD else new

    def _defaulted(self, kind: Kind, object_: Object, old: Object | None) -> Object:
        """As the server keeps it: typed, canonical, without what gates hide, defaults filled in."""
        read = canonical_quantities(kind, self._read(kind, object_))
        return defaulted(kind, self._state.admission.prepared(kind, read, old), self._state.now())

    def _read(self, kind: Kind, object_: Object) -> Object:
        """The object typed. Only resource.k8s.io: what clients send of the other kinds was read when it came in."""
        return decoded(self._state.schemas, kind, object_).object if kind.group == "resource.k8s.io" else object_

    def restore(self, kind: Kind, object_: Object) -> Object:
        """Put an object as a backup has it, uid and status kept: read and defaulted as at every write, but not admitted.

        Raises `ApiError` 400 for a value of the wrong type.
        """
        read = canonical_quantities(kind, self._read(kind, object_))
        return self._store.put(kind, self._key_of(kind, read), defaulted(kind, read, self._state.now()))

    def update(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        new = self._incoming(kind, object_, namespace)
        name = new["metadata"].get("name", "")
        old = self.get(kind, name, new["metadata"].get("namespace", ""))
        return self._write(kind, old, new, subresource, whole=True)

    def patch(
        self,
        kind: Kind,
        name: str,
        body: Any,
        namespace: str = "",
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> Object:
        old = self.get(kind, name, namespace)
        new = patched(old, body, patch_type, self.typed(kind) if patch_type == "strategic" else None)
        if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
            raise bad_request("the patch leaves no object")
        if new["metadata"].get("name") != name:
            raise bad_request(
                f"the name of the object ({new['metadata'].get('name', '')}) does not match the name on the URL ({name})"
            )
        return self.replace(kind, old, new, namespace, subresource)

    def replace(self, kind: Kind, old: Object, new: Object, namespace: str = "", subresource: str = "") -> Object:
        """Put `new` in the place of `old`, which must be what is stored now. Raises `Conflict` when it is not."""
        return self._write(kind, old, self._incoming(kind, new, namespace), subresource)

    def typed(self, kind: Kind) -> Typed | None:
        """What strategic merge has to know of a kind; None for kinds without a schema."""
        schema = self._state.schemas.of(kind)
        return Typed(self._state.schemas, schema) if schema else None

    def _write(self, kind: Kind, old: Object, new: Object, subresource: str, *, whole: bool = False) -> Object:
        """Replace `old` (what is stored now) by `new`, as the path `subresource` may. `whole`: the caller sent all of it."""
        name = old["metadata"]["name"]
        call = self._call("update", kind, name, old, subresource)
        self._fault(call)
        self._check_same(kind, old, new, whole)
        current = self._store.find(kind, self._key_of(kind, old))
        if current is not old:
            raise modified(kind, name)
        prepared = prepared_for_update(kind, old, self._defaulted(kind, new, old), subresource)
        asked_uid = prepared["metadata"].get("uid")
        prepared["metadata"] = self._kept_metadata(old["metadata"], prepared["metadata"])
        if asked_uid and asked_uid != old["metadata"]["uid"]:
            raise invalid_object(kind, name, [invalid("metadata.uid", asked_uid, "field is immutable")])
        self._state.admission.at_update(self._store, kind, prepared, old, subresource)
        prepared = self._managed(kind, old, prepared, subresource)
        key = self._key_of(kind, old)
        if self._dry_run:
            return prepared
        if gone_after_update(old, prepared) and not self._namespace_held(kind, prepared):
            self._store.remove(kind, key, prepared)
            self._done(self._call("delete", kind, name, old, subresource), old, None)
            return prepared
        if prepared == old:
            return old
        stored = self._store.put(kind, key, prepared)
        self._done(call, old, stored)
        return stored

    def _managed(self, kind: Kind, old: Object | None, new: Object, subresource: str) -> Object:
        """With its managed fields: brought up to date for a caller that is a manager, else as they were."""
        manager = self._manager
        if self._program and self._state.knows_programs:
            manager = self._actor.partition(" ")[0]
        if manager:
            by = Manager(manager, subresource)
            return self._state.fields.updated(kind, old, new, by, self._state.now())
        kept = old["metadata"].get("managedFields") if old is not None else None
        if kept and "managedFields" not in new["metadata"]:
            return {**new, "metadata": {**new["metadata"], "managedFields": kept}}
        return new

    def apply(
        self, kind: Kind, name: str, wanted: Object, namespace: str, manager: Manager, *, force: bool
    ) -> tuple[Object, bool]:
        """Server-side apply. Returns the object and whether it is new. Raises `Conflict` for fields of others."""
        plain = Api(self._state, self._actor, self._component, dry_run=self._dry_run)
        live = self.find(kind, name, namespace)
        if live is None and manager.subresource:
            raise not_found(kind, name)
        sent = self._incoming(kind, wanted, namespace)
        sent["metadata"]["name"] = name
        sent = canonical_quantities(kind, decoded(self._state.schemas, kind, sent).object)
        uid = sent["metadata"].pop("uid", None)
        if uid and (live is None or live["metadata"]["uid"] != uid):
            found = (
                "no existing object was found" if live is None else f"the existing object is {live['metadata']['uid']}"
            )
            raise conflict(kind, name, f"uid mismatch: the provided object specified uid {uid}, and {found}")
        version = sent["metadata"].pop("resourceVersion", None)
        if version and (live is None or live["metadata"]["resourceVersion"] != version):
            raise modified(kind, name) if live is not None else not_found(kind, name)
        new = self._state.fields.applied(kind, live, sent, manager, self._state.now(), force=force)
        if live is None:
            return plain.create(kind, new, namespace), True
        return plain._write(kind, live, new, manager.subresource), False

    def _namespace_held(self, kind: Kind, object_: Object) -> bool:
        is_namespace = kind.group == "" and kind.plural == "namespaces"
        return is_namespace and bool((object_.get("spec") or {}).get("finalizers"))

    def _check_same(self, kind: Kind, old: Object, new: Object, whole: bool) -> None:
        metadata, have = new["metadata"], old["metadata"]
        if whole and metadata.get("uid") and metadata["uid"] != have["uid"]:
            raise other_uid(kind, old, metadata["uid"])
        version = metadata.get("resourceVersion")
        if version and version != have["resourceVersion"]:
            if not str(version).isdigit():
                message = f'strconv.ParseUint: parsing "{version}": invalid syntax'
                raise ApiError(500, "", message, failure(500, "", message))
            raise modified(kind, have["name"])

    def _kept_metadata(self, old: Object, new: Object) -> Object:
        """What an update can never change, and no empty members."""
        kept = {key: value for key, value in new.items() if value not in (None, "", [], {})}
        for field in ("uid", "creationTimestamp", "deletionTimestamp", "resourceVersion"):
            kept.pop(field, None)
            if field in old:
                kept[field] = old[field]
        if "deletionGracePeriodSeconds" in old:
            kept["deletionGracePeriodSeconds"] = old["deletionGracePeriodSeconds"]
        return kept

    def bind(self, namespace: str, pod: str, node: str, *, uid: str = "") -> None:
        podwrites.bind(self, namespace, pod, node, uid)

    def write_pod(self, kind: Kind, old: Object, new: Object, subresource: str) -> Object:
        """A write that the strategies of updates do not apply to (binding). Admission has been asked by the caller."""
        call = self._call("update", kind, old["metadata"]["name"], old, subresource)
        self._fault(call)
        stored = self._store.put(kind, self._key_of(kind, old), new)
        self._done(call, old, stored)
        return stored

    def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_s: int | None = None,
        propagation_policy: str = "",
    ) -> None:
        self.remove(kind, name, namespace, DeleteOptions(uid, "", grace_period_s, propagation_policy))

    def remove(self, kind: Kind, name: str, namespace: str, options: DeleteOptions) -> tuple[Object, bool]:
        """Delete with all options. Returns the last state and whether the object is gone."""
        old = self.get(kind, name, namespace)
        call = self._call("delete", kind, name, old)
        self._fault(call)
        if kind == NAMESPACE and name in PROTECTED_NAMESPACES:
            raise forbidden(kind, name, "this namespace may not be deleted")
        check_preconditions(kind, old, options)
        step = deletion(kind, old, options, self._state.clock.now_s())
        if self._dry_run:
            return step.marked or old, step.remove
        key, last = self._key_of(kind, old), old
        if step.marked is not None:
            last = self._store.put(kind, key, step.marked)
            self._state.record(self._call("update", kind, name, old), old, last)
        if step.remove:
            self._store.remove(kind, key)
            self._state.record(call, last, None)
        self._fault(self._call("delete", kind, name, old, moment="after"))
        return last, step.remove

    def event(self, regarding: Object, type_: str, reason: str, message: str) -> None:
        events.record(self, regarding, type_, reason, message)

    def subscribe(self, kinds: Iterable[Kind], listener: Callable[[Kind, WatchEvent], None]) -> Callable[[], None]:
        wanted = {slot(kind): kind for kind in kinds}
        for kind in wanted.values():
            for object_ in self._store.list(kind):
                listener(kind, WatchEvent("ADDED", object_))

        def tell(change: Change) -> None:
            kind = wanted.get(slot(change.kind))
            if kind is not None:
                listener(kind, change.event)

        return self._store.listen(tell, wanted)

    def follow(
        self,
        kind: Kind,
        namespace: str,
        resource_version: str,
        label_selector: str,
        field_selector: str,
        deliver: Callable[[WatchEvent], None],
    ) -> Callable[[], None]:
        """Deliver the changes after a revision ("" and "0": all objects as ADDED first). Returns what ends it.

        An object that ceases to match the selectors is DELETED. Raises `Gone` when the revision is too old.
        """
        match = matcher(kind, label_selector, field_selector)

        def tell(change: Change) -> None:
            if slot(change.kind) != slot(kind) or (namespace and change.key[0] != namespace):
                return
            event = _selected(change, match)
            if event is not None:
                deliver(event)

        if resource_version in ("", "0"):
            for object_ in self._store.list(kind, namespace):
                if match(object_):
                    deliver(WatchEvent("ADDED", object_))
        else:
            for change in self._store.since(_revision(resource_version)):
                tell(change)
        return self._store.listen(tell, (slot(kind),))

    def _incoming(self, kind: Kind, object_: Object, namespace: str) -> Object:
        """A copy of what the caller sent, in the namespace of the call, with apiVersion and kind."""
        new: Object = copy_json(object_)
        metadata = new.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            metadata = decoded(self._state.schemas, kind, new).object.get("metadata")
        metadata = new["metadata"] = metadata if isinstance(metadata, dict) else {}
        new["apiVersion"], new["kind"] = kind.api_version, kind.kind
        if not kind.namespaced:
            metadata.pop("namespace", None)
            return new
        if namespace and metadata.get("namespace") not in (None, "", namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = namespace or metadata.get("namespace") or ""
        if not metadata["namespace"]:
            raise bad_request("an empty namespace may not be set during creation")
        return new

    def _key(self, kind: Kind, name: str, namespace: str) -> Key:
        return (namespace if kind.namespaced else "", name)

    def _key_of(self, kind: Kind, object_: Object) -> Key:
        metadata = object_["metadata"]
        return self._key(kind, metadata["name"], metadata.get("namespace", ""))

    def _call(
        self, verb: Verb, kind: Kind, name: str, object_: Object, subresource: str = "", moment: Any = "before"
    ) -> ApiCall:
        namespace = object_["metadata"].get("namespace", "") if kind.namespaced else ""
        return ApiCall(moment, self._actor, verb, kind, namespace, name, subresource)

    def _fault(self, call: ApiCall) -> None:
        self._state.fault(call)

    def _done(self, call: ApiCall, old: Object | None, new: Object | None) -> None:
        self._state.record(call, old, new)
        self._state.fault(ApiCall("after", *_rest(call)))


def _rest(call: ApiCall) -> tuple[str, Verb, Kind, str, str, str]:
    return call.actor, call.verb, call.kind, call.namespace, call.name, call.subresource


def _revision(text: str) -> int:
    if not text.isdigit():
        raise internal_error(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


def _selected(change: Change, match: Callable[[Object], bool]) -> WatchEvent | None:
    """The change as somebody sees it who looks through selectors."""
    is_ = change.type != "DELETED" and match(change.object)
    was = change.previous is not None and match(change.previous)
    if is_:
        return WatchEvent("MODIFIED" if was else "ADDED", change.object)
    if not was:
        return None
    if change.type == "DELETED":
        return change.event
    last = change.previous or change.object
    version = change.object["metadata"]["resourceVersion"]
    return WatchEvent("DELETED", {**last, "metadata": {**last["metadata"], "resourceVersion": version}})
