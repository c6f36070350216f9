// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// serve answers a request that is no watch.
func (s *Server) serve(q *request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.store.collections[q.gr()]
	if c == nil {
		return refusal(notServed(q.kind.gvr()))
	}
	a, err := s.answer(c, q)
	if err != nil {
		return refusal(err)
	}
	return a
}

func (s *Server) answer(c *collection, q *request) (answer, error) {
	switch q.verb {
	case "get":
		return s.get(c, q)
	case "list":
		return s.list(c, q)
	}
	return s.write(c, q)
}

func (s *Server) get(c *collection, q *request) (answer, error) {
	e := c.objects[q.key]
	if e == nil {
		return answer{}, apierrors.NewNotFound(q.gr(), q.key.Name)
	}
	return answer{status: http.StatusOK, body: e.textFor(q.kind)}, nil
}

// textFor is the object in the version that was asked for. Versions differ in their name only.
func (e *entry) textFor(k *kind) []byte {
	if e.object["apiVersion"] == k.gvk.GroupVersion().String() {
		return e.text
	}
	o := e.meta().DeepCopy()
	o.SetAPIVersion(k.gvk.GroupVersion().String())
	return encoded(o.Object)
}

// selector is what a list or a watch selects.
func (q *request) selector() (func(*entry) bool, error) {
	byLabel, err := labels.Parse(q.query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(q.query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, r := range byField.Requirements() {
		if !selectable(q.kind, r.Field) {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	return func(e *entry) bool {
		o := e.meta()
		if q.key.Namespace != "" && o.GetNamespace() != q.key.Namespace {
			return false
		}
		return byLabel.Matches(labels.Set(o.GetLabels())) && (byField.Empty() || byField.Matches(fieldsOf(o, byField)))
	}, nil
}

// selectable reports whether the real server selects objects of the kind by the field.
func selectable(k *kind, path string) bool {
	switch path {
	case "metadata.name":
		return true
	case "metadata.namespace":
		return k.namespaced
	case "spec.nodeName", "status.phase":
		return k.gvk.Kind == "Pod"
	case "type":
		return k.gvk.Kind == "Secret"
	case "involvedObject.name", "involvedObject.uid", "involvedObject.kind", "reason":
		return k.gvk.Kind == "Event"
	}
	return false
}

func fieldsOf(o *unstructured.Unstructured, by fields.Selector) fields.Set {
	set := fields.Set{}
	for _, r := range by.Requirements() {
		var path []string
		for p := range bytes.SplitSeq([]byte(r.Field), []byte(".")) {
			path = append(path, string(p))
		}
		set[r.Field], _, _ = unstructured.NestedString(o.Object, path...)
	}
	return set
}

// more is where the next page of a list begins.
type more struct {
	After   string `json:"after"`
	Version int64  `json:"version"`
}

func (s *Server) list(c *collection, q *request) (answer, error) {
	selected, err := q.selector()
	if err != nil {
		return answer{}, err
	}
	limit, _ := strconv.Atoi(q.query.Get("limit"))
	if s.options.PageSize > 0 && limit > 0 {
		limit = min(limit, s.options.PageSize)
	}
	page := more{Version: s.store.version}
	if token := q.query.Get("continue"); token != "" {
		if page, err = c.resume(token); err != nil {
			return answer{}, err
		}
	}
	objects := c.objects
	if f, yes := s.faults.strikes(q, StaleLists); yes && q.query.Get("resourceVersion") == "0" {
		objects, page.Version = c.at(time.Now().Add(-f.Delay), page.Version)
	}
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatInt(page.Version, 10)}
	items, last := bytes.Buffer{}, ""
	n := 0
	for _, k := range sorted(objects, page.After) {
		e := objects[k]
		if !selected(e) {
			continue
		}
		if limit > 0 && n == limit {
			meta.Continue = base64.URLEncoding.EncodeToString(encoded(more{last, page.Version}))
			break
		}
		if n > 0 {
			items.WriteByte(',')
		}
		items.Write(e.textFor(q.kind))
		last, n = k.String(), n+1
	}
	body := fmt.Appendf(nil, `{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[%s]}`, q.kind.gvk.Kind, q.kind.gvk.GroupVersion(), encoded(meta), items.Bytes())
	return answer{status: http.StatusOK, body: body}, nil
}

// resume reads where a page begins. Changes since the first page are seen, as after the real server's
// compaction; a page of a list that is too old has expired.
func (c *collection) resume(token string) (more, error) {
	var m more
	text, err := base64.URLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, apierrors.NewBadRequest("continue key is not valid: " + err.Error())
	}
	if m.Version < c.oldest {
		return m, expired()
	}
	return m, nil
}

func expired() error {
	return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
}

// at are the objects at an earlier time, and the version of then; at the earliest, what is known of.
func (c *collection) at(then time.Time, version int64) (map[key]*entry, int64) {
	objects := map[key]*entry{}
	for k, e := range c.objects {
		objects[k] = e
	}
	for i := len(c.changes) - 1; i >= 0 && c.changes[i].at.After(then); i-- {
		x := c.changes[i]
		switch {
		case x.was == nil:
			delete(objects, keyOf(x.is.meta()))
		default:
			objects[keyOf(x.was.meta())] = x.was
		}
		version = x.version - 1
	}
	return objects, version
}
