// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// request is a request for objects.
type request struct {
	ctx     context.Context
	process string
	verb    string // get, list, watch, create, update, patch, delete
	kind    *kind
	key     key
	sub     string
	query   url.Values
	patch   string // the media type of a patch
	body    []byte
}

// answer is what a request gets. A stream has no end but the request's.
type answer struct {
	status int
	body   []byte
	stream io.ReadCloser
	wait   time.Duration // Retry-After
}

// Transport carries the requests of one process, by the name that Options.OnWrite is told.
func (s *Server) Transport(process string) *Transport {
	return &Transport{server: s, process: process, killed: make(chan struct{}), resumed: closed()}
}

// Config is for clients of the process. They speak JSON, and are not held back.
func (s *Server) Config(t *Transport) *rest.Config {
	return &rest.Config{
		Host: "http://" + t.process + ".example", Transport: t, UserAgent: t.process, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON},
	}
}

// RoundTrip answers one request, for http.Client.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := t.answer(r)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Date": {t.server.Now().UTC().Format(http.TimeFormat)}}
	if a.wait > 0 {
		header.Set("Retry-After", fmt.Sprint(int(a.wait.Seconds())))
	}
	body, size := a.stream, int64(-1)
	if body == nil {
		body, size = io.NopCloser(strings.NewReader(string(a.body))), int64(len(a.body))
	}
	return &http.Response{
		StatusCode: a.status, Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header, Body: body, ContentLength: size, Request: r,
	}, nil
}

func (t *Transport) answer(r *http.Request) (answer, error) {
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return answer{}, err
		}
	}
	if found, a := t.server.discover(r.URL.Path); found {
		// It takes no time: clients hold a lock meanwhile, and a bubble whose goroutines wait for locks
		// stands still.
		if t.isKilled() {
			return answer{}, errKilled
		}
		if err := t.server.faults.unreachable(); err != nil {
			return answer{}, err
		}
		return a, nil
	}
	body, err := asJSON(r.Header.Get("Content-Type"), body)
	if err != nil {
		return refusal(err), nil
	}
	q, err := t.server.parse(r, t.process, body)
	if err != nil {
		return refusal(err), nil
	}
	return t.carry(q)
}

// asJSON is a body in JSON: clients of Kubernetes' own kinds send protobuf.
func asJSON(mediaType string, body []byte) ([]byte, error) {
	if mediaType != runtime.ContentTypeProtobuf || len(body) == 0 {
		return body, nil
	}
	o, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	o.GetObjectKind().SetGroupVersionKind(*gvk)
	return encoded(o), nil
}

// parse reads what a request is about off its path.
func (s *Server) parse(r *http.Request, process string, body []byte) (*request, error) {
	q := &request{ctx: r.Context(), process: process, query: r.URL.Query(), patch: r.Header.Get("Content-Type"), body: body}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	gvr := runtimeschema.GroupVersionResource{}
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		gvr.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		gvr.Group, gvr.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, apierrors.NewNotFound(runtimeschema.GroupResource{}, r.URL.Path)
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		q.key.Namespace, parts = parts[1], parts[2:]
	}
	gvr.Resource, parts = parts[0], parts[1:]
	s.mu.Lock()
	q.kind = s.kindOf(gvr)
	s.mu.Unlock()
	if q.kind == nil {
		return nil, notServed(gvr)
	}
	if len(parts) > 0 {
		q.key.Name = parts[0]
	}
	if len(parts) > 1 {
		q.sub = parts[1]
	}
	q.verb = verbOf(r.Method, q)
	if q.verb == "" {
		return nil, apierrors.NewMethodNotSupported(gvr.GroupResource(), r.Method)
	}
	return q, nil
}

// notServed is how the real server answers for a resource that it does not know.
func notServed(gvr runtimeschema.GroupVersionResource) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{Group: gvr.Group, Kind: gvr.Resource},
	}}
}

func verbOf(method string, q *request) string {
	one := q.key.Name != ""
	switch {
	case method == http.MethodGet && q.query.Get("watch") == "true":
		return "watch"
	case method == http.MethodGet && one:
		return "get"
	case method == http.MethodGet:
		return "list"
	case method == http.MethodPost:
		return "create"
	case method == http.MethodPut && one:
		return "update"
	case method == http.MethodPatch && one:
		return "patch"
	case method == http.MethodDelete && one:
		return "delete"
	}
	return ""
}

// attributes are what an authorizer sees of a request.
func (q *request) attributes() Request {
	a := Request{
		Process: q.process, Verb: q.verb, Group: q.kind.gvk.Group, Resource: q.kind.plural, Namespace: q.key.Namespace, Name: q.key.Name,
		Streams: q.verb == "watch" && q.query.Get("sendInitialEvents") == "true",
	}
	if q.sub != "" {
		a.Resource += "/" + q.sub
	}
	return a
}

func (q *request) gr() runtimeschema.GroupResource { return q.kind.gvr().GroupResource() }

// unexplained is an error of status 500 without a reason, which is what plain errors within the API server become.
func unexplained(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: message}}
}

// refusal is an error as the server sends it.
func refusal(err error) answer {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	st := status.Status()
	st.Kind, st.APIVersion = "Status", "v1"
	a := answer{status: int(st.Code), body: encoded(st)}
	if st.Details != nil {
		a.wait = time.Duration(st.Details.RetryAfterSeconds) * time.Second
	}
	return a
}

func encoded(o any) []byte {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // nothing that is encoded here can fail
	}
	return text
}

// discover answers what is asked before there is a client for a kind.
func (s *Server) discover(path string) (bool, answer) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case path == "/version":
		return true, answer{status: http.StatusOK, body: encoded(version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.3"})}
	case path == "/api":
		return true, answer{status: http.StatusOK, body: encoded(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})}
	case path == "/apis":
		return true, answer{status: http.StatusOK, body: encoded(s.groupList())}
	case len(parts) == 2 && parts[0] == "api", len(parts) == 3 && parts[0] == "apis":
		gv, err := runtimeschema.ParseGroupVersion(strings.Join(parts[1:], "/"))
		list := resourceList(s.served(), gv)
		if err != nil || len(list.APIResources) == 0 {
			return true, refusal(notServed(gv.WithResource("")))
		}
		return true, answer{status: http.StatusOK, body: encoded(list)}
	}
	return false, answer{}
}

// served are the kinds that have not been removed.
func (s *Server) served() []*kind {
	var kinds []*kind
	for _, k := range s.kinds {
		if s.store.collections[k.gvr().GroupResource()] != nil {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func (s *Server) groupList() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	at := map[string]int{}
	for _, gv := range groups(s.served()) {
		if gv.Group == "" {
			continue
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		i, known := at[gv.Group]
		if !known {
			i = len(list.Groups)
			at[gv.Group] = i
			list.Groups = append(list.Groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: v})
		}
		list.Groups[i].Versions = append(list.Groups[i].Versions, v)
	}
	return list
}
