// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// kubelets are what is wrong with kubelets. It carries their requests, and changes the Nodes with
// which they register.
type kubelets struct {
	api http.RoundTripper
	// user is somebody whose Node stands in a kubelet's way.
	user client.Client
	// vms is what the provider IDs of the cluster's VMs begin with.
	vms string

	mu sync.Mutex
	// next are the flaws of the Nodes that register next, one each.
	next []flaw
	// refused is until when a Node cannot register, silent until when its kubelet says nothing, and
	// unready until when it says that it is not ready; by name.
	refused, silent, unready map[string]time.Time
	// clock is how far kubelets' clocks are ahead.
	clock time.Duration
}

// flaw is what is wrong with a Node as it registers, and for how long.
type flaw struct {
	name  string
	lasts time.Duration
}

// The flaws of Nodes that register.
const (
	neverRegisters  = "NodeNeverRegisters"
	neverReady      = "NodeNeverReady"
	lessCapacity    = "NodeHasLess"
	otherProviderID = "NodeHasOtherProviderID"
	labelsMissing   = "NodeLabelsMissing"
	nameTaken       = "NodeNameTaken"
)

func newKubelets(api http.RoundTripper) *kubelets {
	return &kubelets{api: api, refused: map[string]time.Time{}, silent: map[string]time.Time{}, unready: map[string]time.Time{}}
}

// spoil has the next Nodes that register have a flaw.
func (k *kubelets) spoil(f flaw, nodes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for range nodes {
		k.next = append(k.next, f)
	}
}

// heal ends all that is wrong, but for Nodes that have registered with a flaw.
func (k *kubelets) heal() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next, k.clock = nil, 0
	clear(k.refused)
	clear(k.silent)
	clear(k.unready)
}

func (k *kubelets) silence(node string, d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.silent[node] = time.Now().Add(d)
}

func (k *kubelets) setUnready(node string, d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unready[node] = time.Now().Add(d)
}

func (k *kubelets) setClock(ahead time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clock = ahead
}

func (k *kubelets) now() metav1.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return metav1.NewTime(time.Now().Add(k.clock))
}

// says reports whether a Node's kubelet says anything, and whether it says that it is ready.
func (k *kubelets) says(node string) (something, ready bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	return !now.Before(k.silent[node]), !now.Before(k.unready[node])
}

// RoundTrip carries a request of a kubelet.
func (k *kubelets) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/nodes") {
		return k.api.RoundTrip(r)
	}
	node, err := nodeIn(r)
	if err != nil {
		return nil, err
	}
	f, refused := k.flawOf(node.Name)
	if refused {
		return nil, fmt.Errorf("registering %s: no route to host", node.Name)
	}
	k.apply(r, f, node)
	text, err := json.Marshal(node)
	if err != nil {
		return nil, err
	}
	changed := r.Clone(r.Context())
	changed.Body, changed.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	changed.Header.Set("Content-Type", "application/json")
	return k.api.RoundTrip(changed)
}

func nodeIn(r *http.Request) (*corev1.Node, error) {
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	o, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decoding a node: %w", err)
	}
	node, ok := o.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("a kubelet registers a %T", o)
	}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	return node, nil
}

// flawOf is the flaw of a Node that registers now, and whether it cannot.
func (k *kubelets) flawOf(node string) (flaw, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if until, known := k.refused[node]; known {
		return flaw{}, time.Now().Before(until)
	}
	if len(k.next) == 0 {
		return flaw{}, false
	}
	f := k.next[0]
	k.next = k.next[1:]
	switch f.name {
	case neverRegisters:
		k.refused[node] = time.Now().Add(f.lasts)
		return f, true
	case neverReady:
		k.unready[node] = time.Now().Add(f.lasts)
	}
	return f, false
}

// apply changes a Node as its flaw has it.
func (k *kubelets) apply(r *http.Request, f flaw, node *corev1.Node) {
	switch f.name {
	case lessCapacity:
		for _, of := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
			of[corev1.ResourceMemory] = *resource.NewQuantity(of.Memory().Value()*9/10, resource.BinarySI)
		}
	case otherProviderID:
		node.Spec.ProviderID = k.vms + node.Name + "-other"
	case labelsMissing:
		delete(node.Labels, karpv1.NodePoolLabelKey)
		delete(node.Labels, karpv1.CapacityTypeLabelKey)
		delete(node.Labels, corev1.LabelInstanceTypeStable)
	case nameTaken:
		taken := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Spec: corev1.NodeSpec{ProviderID: k.vms + "gone"}}
		_ = k.user.Create(r.Context(), taken) // another fault may keep it from being there
	}
}
