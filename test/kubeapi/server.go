// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Options adjust a Server. The zero value works.
type Options struct {
	// Seed decides what is random: how long requests take, which are at fault, UIDs.
	Seed uint64
	// CRDs are served besides Kubernetes' own kinds.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// RequestTakes is how long a request takes, half of it before it has its effect. Zero: 2 ms.
	RequestTakes time.Duration
	// PageSize is the most objects in a page of a list. Zero: as many as the client asks for.
	PageSize int
	// OnWrite is told of each change, in order, before anyone else: process is the User-Agent of who
	// asked for it. was is nil for a creation, is for a deletion. It must not call the server.
	OnWrite func(at time.Time, process string, was, is *unstructured.Unstructured)
	// OnRequest is told of each request for objects before it is answered, whether it succeeds or
	// not. It must not call the server.
	OnRequest func(Request)
}

// Request is what an authorizer is asked about.
type Request struct {
	Process string // the name of the Transport
	Verb    string // get, list, watch, create, update, patch, delete
	// Group and Resource are of the kind; a subresource follows a slash, as in pods/eviction.
	Group, Resource string
	// Namespace and Name are empty where the request is for objects of all, or for one without a name.
	Namespace, Name string
	// Streams: a watch that begins with all objects, in place of a list. Servers that do not stream
	// lists refuse it, and are asked for a list.
	Streams bool
}

// Server is the API server of one cluster. It is safe for concurrent use.
type Server struct {
	options Options
	scheme  *runtime.Scheme
	faults  faults
	ahead   atomic.Int64 // of the clocks of its clients, in nanoseconds

	mu     sync.Mutex
	random *rand.Rand
	kinds  []*kind
	store  store
}

// New makes a server without objects.
func New(o Options) (*Server, error) {
	if o.RequestTakes == 0 {
		o.RequestTakes = 2 * time.Millisecond
	}
	s := &Server{
		options: o, scheme: scheme.Scheme, random: rand.New(rand.NewPCG(o.Seed, 500)),
		store: store{collections: map[runtimeschema.GroupResource]*collection{}},
	}
	s.faults.random = rand.New(rand.NewPCG(o.Seed, 501))
	s.addKinds(builtIn())
	for _, crd := range o.CRDs {
		kinds, err := custom(crd)
		if err != nil {
			return nil, err
		}
		s.addKinds(kinds)
	}
	return s, nil
}

func (s *Server) addKinds(kinds []*kind) {
	for _, k := range kinds {
		s.kinds = append(s.kinds, k)
		gr := k.gvr().GroupResource()
		if s.store.collections[gr] == nil {
			s.store.collections[gr] = &collection{kind: k, objects: map[key]*entry{}, bell: make(chan struct{})}
		}
	}
}

// RemoveKind takes a custom resource away, as the deletion of its definition does: with all objects.
func (s *Server) RemoveKind(group, plural string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gr := runtimeschema.GroupResource{Group: group, Resource: plural}
	c := s.store.collections[gr]
	if c == nil {
		return
	}
	delete(s.store.collections, gr)
	c.wake() // its watches end
}

// SetClock has the server's clock, by which it dates objects, go ahead of its clients'. A negative
// duration has it go behind.
func (s *Server) SetClock(ahead time.Duration) { s.ahead.Store(int64(ahead)) }

// Now is the time by the server's clock.
func (s *Server) Now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// Forget has the server forget past changes, as a compaction of etcd does: watches from before end,
// and their clients must list anew.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.store.collections {
		c.compact(s.store.version)
	}
}

// Snapshot is a backup of all objects.
type Snapshot struct {
	objects map[runtimeschema.GroupResource]map[key]*entry
}

// Backup makes a backup.
func (s *Server) Backup() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := Snapshot{map[runtimeschema.GroupResource]map[key]*entry{}}
	for gr, c := range s.store.collections {
		b.objects[gr] = map[key]*entry{}
		for k, e := range c.objects {
			b.objects[gr][k] = e
		}
	}
	return b
}

// Restore brings the objects of a backup back, and takes away all others, as restoring etcd does.
// Nobody is told but by a new list. Versions go on from the present one, as operators are advised to
// have it (etcdutl snapshot restore --bump-revision --mark-compacted).
func (s *Server) Restore(b Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for gr, c := range s.store.collections {
		c.objects = map[key]*entry{}
		for k, e := range b.objects[gr] {
			c.objects[k] = e
		}
	}
	s.store.version++
	for _, c := range s.store.collections {
		c.compact(s.store.version)
	}
}

// kindOf is the kind that a path names.
func (s *Server) kindOf(gvr runtimeschema.GroupVersionResource) *kind {
	if s.store.collections[gvr.GroupResource()] == nil {
		return nil
	}
	for _, k := range s.kinds {
		if k.gvr() == gvr {
			return k
		}
	}
	return nil
}

// uid is a new UID.
func (s *Server) uid() string {
	a, b := s.random.Uint64(), s.random.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0xfff, b&0xffffffffffff)
}

const nameLetters = "bcdfghjklmnpqrstvwxz2456789"

// suffix is the random end of a generated name.
func (s *Server) suffix() string {
	var b strings.Builder
	for range 5 {
		b.WriteByte(nameLetters[s.random.IntN(len(nameLetters))])
	}
	return b.String()
}

// requestTakes is how long a request takes from here on: between half and one and a half of what they
// take on average.
func (s *Server) requestTakes() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	half := s.options.RequestTakes / 2
	return half/2 + time.Duration(s.random.Int64N(int64(half)+1))
}
