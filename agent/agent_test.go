// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/karve-dev/karve/agent"
	"github.com/karve-dev/karve/kube"
)

// metadataService is a metadata service that answers as a test sets it, and the Node of its VM.
type metadataService struct {
	t        *testing.T
	api      client.WithWatch
	patches  int
	document agent.Document
	broken   string // the answer of a broken service
	asked    int
	*agent.Agent
}

func newMetadataService(t *testing.T) *metadataService {
	m := &metadataService{t: t}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"kept": "yes"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "kept", Effect: corev1.TaintEffectNoSchedule}}},
	}
	m.api = interceptor.NewClient(fake.NewClientBuilder().WithObjects(node).Build(), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			m.patches++
			return c.Patch(ctx, o, p, opts...)
		},
	})
	m.Agent = &agent.Agent{Node: "node-1", Client: m.api, Log: logr.Discard(),
		Metadata: agent.Metadata{Endpoint: agent.Endpoint, HTTP: &http.Client{Transport: m}}}
	return m
}

// RoundTrip answers for the metadata service.
func (m *metadataService) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	switch {
	case r.Header.Get("Metadata") != "true" || r.Method != http.MethodGet:
		m.t.Errorf("the service would refuse %s %s: an agent reads, and says that it knows whom it asks", r.Method, r.URL)
	case r.URL.Path == "/metadata/instance/compute":
		_, _ = w.WriteString(`{"name": "vm-1", "vmSize": "Standard_D4s_v5"}`)
	case m.broken == "silence":
		return nil, errors.New("no answer")
	case m.broken != "":
		_, _ = w.WriteString(m.broken)
	default:
		m.asked++
		body, err := json.Marshal(m.document)
		if err != nil {
			m.t.Fatal(err)
		}
		_, _ = w.Write(body)
	}
	return w.Result(), nil
}

// show makes the service report events.
func (m *metadataService) show(events ...agent.Event) {
	m.document.Incarnation++
	m.document.Events = events
}

func (m *metadataService) look() {
	m.t.Helper()
	if err := m.Look(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

func (m *metadataService) node() *corev1.Node {
	m.t.Helper()
	n := &corev1.Node{}
	if err := m.api.Get(m.t.Context(), client.ObjectKey{Name: "node-1"}, n); err != nil {
		m.t.Fatal(err)
	}
	return n
}

// wantNotice checks the notice on the Node; the zero Notice is none.
func (m *metadataService) wantNotice(want kube.Notice) {
	m.t.Helper()
	n := m.node()
	got, _ := kube.NoticeOf(n)
	if diff := cmp.Diff(want, got); diff != "" {
		m.t.Errorf("the node tells (-want +got):\n%s", diff)
	}
	if n.Annotations["kept"] != "yes" || n.Spec.Taints[0].Key != "kept" || n.Labels["app"] != "web" {
		m.t.Errorf("the agent changed what is not its own: %v %v %v", n.Annotations, n.Spec.Taints, n.Labels)
	}
}

func event(kind, status string, at time.Time, vms ...string) agent.Event {
	e := agent.Event{ID: kind, Kind: kind, Status: status, Resources: vms}
	if !at.IsZero() {
		e.NotBefore = at.UTC().Format(http.TimeFormat)
	}
	return e
}

// Events that end the VM are on its Node a second later, in one write each, and are
// removed when they are over.
//
// Rule INTERRUPTION-2.
func TestEventsAreToldInOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetadataService(t)
		end := time.Now().Add(30 * time.Second).UTC().Truncate(time.Second)
		m.look()
		m.wantNotice(kube.Notice{})
		for _, kind := range []kube.NoticeKind{kube.NoticePreempt, kube.NoticeTerminate, kube.NoticeRedeploy, kube.NoticeReboot} {
			m.patches = 0
			m.show(event(string(kind), "Scheduled", end, "other-vm", "VM-1"))
			m.look()
			m.look()
			m.wantNotice(kube.Notice{Kind: kind, At: end})
			m.show()
			m.look()
			m.wantNotice(kube.Notice{})
			if m.patches != 2 {
				t.Errorf("%s: %d writes, want one for its coming and one for its end", kind, m.patches)
			}
		}
	})
}

// The events of other VMs, a freeze and unknown kinds change nothing.
//
// Rule INTERRUPTION-2.
func TestOthersEventsAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetadataService(t)
		end := time.Now().Add(time.Minute)
		m.show(event("Preempt", "Scheduled", end, "vm-10", "vm"), event("Freeze", "Scheduled", end, "vm-1"), event("Picnic", "Scheduled", end, "vm-1"))
		m.look()
		m.wantNotice(kube.Notice{})
		if m.patches != 0 {
			t.Errorf("%d writes", m.patches)
		}
		list := &corev1.EventList{}
		if err := m.api.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 2 || !strings.Contains(list.Items[0].Message+list.Items[1].Message, "Freeze Scheduled") {
			t.Errorf("want an event for people about each of the VM's own: %v", list.Items)
		}
	})
}

// Of several events the earliest is on the Node; one that started has no time left,
// whatever its time was.
//
// Rule INTERRUPTION-2.
func TestSoonestEventIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetadataService(t)
		now := time.Now().UTC().Truncate(time.Second)
		m.show(event("Reboot", "Scheduled", now.Add(15*time.Minute), "vm-1"), event("Preempt", "Scheduled", now.Add(30*time.Second), "vm-1"))
		m.look()
		m.wantNotice(kube.Notice{Kind: kube.NoticePreempt, At: now.Add(30 * time.Second)})
		time.Sleep(10 * time.Second)
		m.show(event("Reboot", "Started", time.Time{}, "vm-1"), event("Preempt", "Scheduled", now.Add(30*time.Second), "vm-1"))
		m.look()
		m.wantNotice(kube.Notice{Kind: kube.NoticeReboot, At: now.Add(10 * time.Second)})
		time.Sleep(5 * time.Second)
		m.show(event("Reboot", "Started", time.Time{}, "vm-1"))
		m.look()
		m.wantNotice(kube.Notice{Kind: kube.NoticeReboot, At: now.Add(10 * time.Second)}) // it does not get later
	})
}

// A notice that an earlier agent wrote is removed by the next one when the event is over: a
// VM that was restarted has a new agent.
//
// Rule INTERRUPTION-2.
func TestNewAgentClearsWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetadataService(t)
		m.show(event("Reboot", "Scheduled", time.Now().Add(time.Minute), "vm-1"))
		m.look()
		m.show()
		m.Agent = &agent.Agent{Node: "node-1", Client: m.api, Log: logr.Discard(), Metadata: m.Metadata}
		m.look()
		m.wantNotice(kube.Notice{})
	})
}

// Answers that are none change nothing, and the next good one counts.
func TestBadAnswersChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetadataService(t)
		end := time.Now().Add(time.Minute).UTC().Truncate(time.Second)
		m.show(event("Preempt", "Scheduled", end, "vm-1"))
		m.look()
		for _, broken := range []string{"silence", "{", `"text"`, `{"DocumentIncarnation": "x"}`} {
			m.broken = broken
			m.show()
			if err := m.Look(t.Context()); err == nil {
				t.Errorf("%q is an answer", broken)
			}
			m.wantNotice(kube.Notice{Kind: kube.NoticePreempt, At: end})
		}
		m.broken = ""
		m.show(event("Preempt", "Scheduled", time.Time{}, "vm-1"))
		m.look()
		m.wantNotice(kube.Notice{Kind: kube.NoticePreempt})
	})
}

// Run polls once a second, continues when the cluster cannot be reached, and ends with its
// context.
func TestRunAsksEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetadataService(t)
		m.Agent.Client = interceptor.NewClient(m.api, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if m.asked < 5 {
					return errors.New("no cluster")
				}
				return c.Get(ctx, key, o, opts...)
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		end := time.Now().Add(time.Minute).UTC().Truncate(time.Second)
		m.show(event("Preempt", "Scheduled", end, "vm-1"))
		go m.Run(ctx)
		time.Sleep(9*time.Second + time.Millisecond)
		synctest.Wait()
		if m.asked != 10 {
			t.Errorf("asked %d times in 9 seconds", m.asked)
		}
		m.wantNotice(kube.Notice{Kind: kube.NoticePreempt, At: end})
		stop()
		synctest.Wait()
	})
}
