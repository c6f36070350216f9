// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json" // numbers without a fraction are int64
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// write answers a request that changes something. Callers hold the lock.
func (s *Server) write(c *collection, q *request) (answer, error) {
	switch {
	case q.sub == "eviction":
		return s.evict(c, q)
	case q.sub == "binding":
		return s.bind(c, q)
	case q.sub != "" && (q.sub != "status" || !q.kind.hasStatus):
		return answer{}, notServed(q.kind.gvr())
	}
	switch q.verb {
	case "create":
		return s.create(c, q)
	case "delete":
		return s.delete(c, q)
	}
	was := c.objects[q.key]
	if was == nil {
		return answer{}, apierrors.NewNotFound(q.gr(), q.key.Name)
	}
	if _, yes := s.faults.strikes(q, Contended); yes {
		touched := was.meta().DeepCopy()
		annotate(touched, "contended", strconv.FormatInt(s.store.version, 10))
		var err error
		if was, err = s.keep(c, "somebody else", was, touched.Object); err != nil {
			return answer{}, err
		}
	}
	sent, err := q.change(s, was)
	if err != nil {
		return answer{}, err
	}
	e, err := s.update(c, q, was, sent)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: e.textFor(q.kind)}, nil
}

func annotate(o *unstructured.Unstructured, name, value string) {
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[name] = value
	o.SetAnnotations(all)
}

// keep stores a changed object for a process and tells who watches writes.
func (s *Server) keep(c *collection, process string, was *entry, object map[string]any) (*entry, error) {
	now := time.Now()
	e, err := s.store.put(c, object, now)
	if err == nil {
		s.tell(now, process, was, e)
	}
	return e, err
}

func (s *Server) tell(now time.Time, process string, was, is *entry) {
	if s.options.OnWrite == nil {
		return
	}
	var a, b *unstructured.Unstructured
	if was != nil {
		a = was.meta()
	}
	if is != nil {
		b = is.meta()
	}
	s.options.OnWrite(now, process, a, b)
}

func decode(body []byte) (map[string]any, error) {
	var o map[string]any
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return o, nil
}

func (s *Server) create(c *collection, q *request) (answer, error) {
	object, err := decode(q.body)
	if err != nil {
		return answer{}, err
	}
	o := &unstructured.Unstructured{Object: object}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(o.GetGenerateName() + s.suffix())
	}
	if o.GetResourceVersion() != "" {
		return answer{}, unexplained("resourceVersion should not be set on objects to be created")
	}
	if q.kind.namespaced {
		o.SetNamespace(q.key.Namespace)
	}
	o.SetUID(types.UID(s.uid()))
	o.SetCreationTimestamp(metav1.NewTime(s.Now().Truncate(time.Second)))
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	if q.kind.counts {
		o.SetGeneration(1)
	}
	if q.kind.hasStatus && (q.kind.schema != nil || q.kind.gvk.Kind == "Pod") {
		delete(object, "status")
	}
	if _, yes := s.faults.strikes(q, Mutated); yes {
		mutate(o)
	}
	born(q.kind.gvk.Kind, object)
	q.kind.schema.complete(object)
	s.faults.dropFields(q, object)
	if err := s.validate(q, o); err != nil {
		return answer{}, err
	}
	if c.objects[keyOf(o)] != nil {
		return answer{}, apierrors.NewAlreadyExists(q.gr(), o.GetName())
	}
	if q.query.Get("dryRun") != "" {
		return answer{status: http.StatusCreated, body: encoded(object)}, nil
	}
	e, err := s.keep(c, q.process, nil, object)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusCreated, body: e.textFor(q.kind)}, nil
}

func mutate(o *unstructured.Unstructured) {
	all := o.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	all["policy.example.com/checked"] = "yes"
	o.SetLabels(all)
	annotate(o, "policy.example.com/by", "a webhook")
}

// born sets what the real server sets on creation, of what is read here.
func born(kind string, o map[string]any) {
	set := func(value any, path ...string) {
		if _, there, _ := unstructured.NestedFieldNoCopy(o, path...); !there {
			_ = unstructured.SetNestedField(o, value, path...) // the path has objects only
		}
	}
	switch kind {
	case "Pod":
		set("Pending", "status", "phase")
		set("Always", "spec", "restartPolicy")
		set("default-scheduler", "spec", "schedulerName")
		set(int64(30), "spec", "terminationGracePeriodSeconds")
		if ns, _, _ := unstructured.NestedString(o, "metadata", "namespace"); ns != "kube-system" {
			set(int64(0), "spec", "priority")
		}
	case "Namespace":
		set("Active", "status", "phase")
	}
}

func (s *Server) validate(q *request, o *unstructured.Unstructured) error {
	var errs field.ErrorList
	if messages := validation.IsDNS1123Subdomain(o.GetName()); len(messages) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), o.GetName(), messages[0]))
	}
	errs = append(errs, q.kind.schema.validate(o.Object)...)
	if len(errs) > 0 {
		return apierrors.NewInvalid(q.kind.gvk.GroupKind(), o.GetName(), errs)
	}
	return nil
}

// change is the object as an update or a patch wants it.
func (q *request) change(s *Server, was *entry) (map[string]any, error) {
	if q.verb == "update" {
		return decode(q.body)
	}
	var text []byte
	var err error
	switch types.PatchType(q.patch) {
	case types.MergePatchType:
		text, err = jsonpatch.MergePatch(was.text, q.body)
	case types.JSONPatchType:
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(q.body); err == nil {
			text, err = p.Apply(was.text)
		}
	case types.StrategicMergePatchType:
		typed, unknown := s.scheme.New(q.kind.gvk)
		if unknown != nil {
			return nil, unsupported(q)
		}
		text, err = strategicpatch.StrategicMergePatch(was.text, q.body, typed)
	default:
		return nil, unsupported(q)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return decode(text)
}

func unsupported(q *request) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: fmt.Sprintf("the body of the request was in an unknown format: %s", q.patch),
	}}
}

// update stores a new state of an object, as far as the request may change it.
func (s *Server) update(c *collection, q *request, was *entry, sent map[string]any) (*entry, error) {
	old, o := was.meta(), &unstructured.Unstructured{Object: sent}
	if v := o.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return nil, conflict(q, "the object has been modified; please apply your changes to the latest version and try again")
	}
	if u := o.GetUID(); u != "" && u != old.GetUID() {
		return nil, conflict(q, fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", u, old.GetUID()))
	}
	keepSystemFields(o, old)
	if err := noNewFinalizers(q, o, old); err != nil {
		return nil, err
	}
	if q.sub == "status" {
		statusOnly(q.kind, sent, was.object)
	} else if q.kind.hasStatus {
		restore(sent, was.object, "status")
	}
	q.kind.schema.complete(sent)
	s.faults.dropFields(q, sent)
	if err := s.validate(q, o); err != nil {
		return nil, err
	}
	if q.kind.counts && !reflect.DeepEqual(sent["spec"], was.object["spec"]) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
	if same(sent, was.object) || q.query.Get("dryRun") != "" {
		return was, nil
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && !graceful(q.kind, o) {
		e, err := s.store.remove(c, sent, time.Now())
		if err == nil {
			s.tell(time.Now(), q.process, was, nil)
		}
		return e, err
	}
	return s.keep(c, q.process, was, sent)
}

func conflict(q *request, message string) error {
	return apierrors.NewConflict(q.gr(), q.key.Name, fmt.Errorf("%s", message))
}

// keepSystemFields keeps what no client may change.
func keepSystemFields(o, old *unstructured.Unstructured) {
	o.SetNamespace(old.GetNamespace())
	o.SetName(old.GetName())
	o.SetUID(old.GetUID())
	o.SetResourceVersion(old.GetResourceVersion())
	o.SetGeneration(old.GetGeneration())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	o.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
}

// noNewFinalizers refuses finalizers that come once an object is being deleted.
func noNewFinalizers(q *request, o, old *unstructured.Unstructured) error {
	added := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return slices.Contains(old.GetFinalizers(), f) })
	if old.GetDeletionTimestamp() == nil || len(added) == 0 {
		return nil
	}
	return apierrors.NewInvalid(q.kind.gvk.GroupKind(), q.key.Name, field.ErrorList{field.Forbidden(field.NewPath("metadata", "finalizers"),
		fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers %q", added))})
}

// statusOnly keeps all but the status. Labels and annotations of Nodes and Pods change as well, as the
// real server has it; those of custom resources do not.
func statusOnly(k *kind, sent, was map[string]any) {
	for field := range sent {
		if field != "status" && (field != "metadata" || k.schema != nil) {
			restore(sent, was, field)
		}
	}
	for field := range was {
		if field != "status" {
			if _, there := sent[field]; !there {
				restore(sent, was, field)
			}
		}
	}
}

func restore(sent, was map[string]any, field string) {
	if value, there := was[field]; there {
		sent[field] = value
	} else {
		delete(sent, field)
	}
}

// same reports whether nothing changes: the real server does not write then.
func same(a, b map[string]any) bool { return string(encoded(a)) == string(encoded(b)) }

// graceful reports whether a pod still has time to end: its kubelet deletes it without grace.
func graceful(k *kind, o *unstructured.Unstructured) bool {
	g := o.GetDeletionGracePeriodSeconds()
	return k.gvk.Kind == "Pod" && g != nil && *g > 0
}

func (s *Server) delete(c *collection, q *request) (answer, error) {
	var options metav1.DeleteOptions
	if len(q.body) > 0 {
		if err := json.Unmarshal(q.body, &options); err != nil {
			return answer{}, apierrors.NewBadRequest(err.Error())
		}
	}
	was := c.objects[q.key]
	if was == nil {
		return answer{}, apierrors.NewNotFound(q.gr(), q.key.Name)
	}
	e, err := s.end(c, q, was, &options)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: e.textFor(q.kind)}, nil
}

// end deletes an object, or marks it for deletion where a finalizer or a pod's grace asks for time.
func (s *Server) end(c *collection, q *request, was *entry, options *metav1.DeleteOptions) (*entry, error) {
	old := was.meta()
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() {
			return nil, conflict(q, fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", *p.UID, old.GetUID()))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return nil, conflict(q, fmt.Sprintf("Precondition failed: ResourceVersion in precondition: %s, ResourceVersion in object meta: %s", *p.ResourceVersion, old.GetResourceVersion()))
		}
	}
	if len(options.DryRun) > 0 {
		return was, nil
	}
	now, o := s.Now(), old.DeepCopy()
	grace := graceOf(c.kind, old, options)
	if grace == 0 && len(o.GetFinalizers()) == 0 {
		e, err := s.store.remove(c, o.Object, time.Now())
		if err == nil {
			s.tell(time.Now(), q.process, was, nil)
		}
		return e, err
	}
	if at := o.GetDeletionTimestamp(); at != nil {
		before := o.GetDeletionGracePeriodSeconds()
		if before == nil || grace >= *before {
			return was, nil
		}
		begun := at.Add(-time.Duration(*before) * time.Second)
		now = begun
	} else if c.kind.counts {
		o.SetGeneration(o.GetGeneration() + 1)
	}
	at := metav1.NewTime(now.Add(time.Duration(grace) * time.Second).Truncate(time.Second))
	o.SetDeletionTimestamp(&at)
	o.SetDeletionGracePeriodSeconds(&grace)
	return s.keep(c, q.process, was, o.Object)
}

// graceOf is how many seconds an object has to end. Pods that no kubelet runs have none.
func graceOf(k *kind, o *unstructured.Unstructured, options *metav1.DeleteOptions) int64 {
	if k.gvk.Kind != "Pod" {
		return 0
	}
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	if node == "" || phase == "Succeeded" || phase == "Failed" {
		return 0
	}
	if options.GracePeriodSeconds != nil {
		return max(0, *options.GracePeriodSeconds)
	}
	seconds, _, _ := unstructured.NestedInt64(o.Object, "spec", "terminationGracePeriodSeconds")
	return seconds
}
