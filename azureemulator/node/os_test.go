// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/karve-dev/karve/azureemulator"
)

const goodToken = "abcdef.0123456789abcdef"

// apiServer is as much of an API server as a kubelet meets when it joins: it
// checks the bootstrap token, signs certificate requests, and lets a node write
// only itself, by its certificate.
type apiServer struct {
	*httptest.Server
	os        *OS
	key       *ecdsa.PrivateKey
	authority *x509.Certificate

	mu       sync.Mutex
	requests map[string]*certificatesv1.CertificateSigningRequest
	nodes    map[string]*corev1.Node
	csiNodes map[string]*storagev1.CSINode
	refuse   int           // how many of the next node creations fail
	changed  chan struct{} // one token per write of a node
}

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{
		requests: map[string]*certificatesv1.CertificateSigningRequest{},
		nodes:    map[string]*corev1.Node{},
		csiNodes: map[string]*storagev1.CSINode{},
		changed:  make(chan struct{}, 100),
	}
	block, _ := pem.Decode(testAuthorityWithKey(t, &s.key))
	var err error
	if s.authority, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(s.authority)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.TLS = &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are part of the tests
	s.StartTLS()
	t.Cleanup(s.Close)
	s.os = NewOS(Options{Silence: time.Millisecond, Routes: s.routes()})
	return s
}

// serverName is in the certificates of httptest.
const serverName = "example.com"

// routes lead from the API server's name to where it listens.
func (s *apiServer) routes() map[string]string {
	return map[string]string{serverName + ":443": s.Listener.Addr().String()}
}

func (s *apiServer) payload() []byte {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	env := goodEnvironment(ca)
	env["API_SERVER_NAME"] = serverName
	return script(env)
}

func (s *apiServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case strings.HasPrefix(r.URL.Path, "/apis/certificates.k8s.io/v1/certificatesigningrequests"):
		if r.Header.Get("Authorization") != "Bearer "+goodToken {
			refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
			return
		}
		s.serveRequests(w, r)
	case strings.HasPrefix(r.URL.Path, "/api/v1/nodes"):
		s.serveNodes(w, r)
	case strings.HasPrefix(r.URL.Path, "/apis/storage.k8s.io/v1/csinodes"):
		s.serveCSINodes(w, r)
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, r.URL.Path)
	}
}

func (s *apiServer) serveRequests(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		request := &certificatesv1.CertificateSigningRequest{}
		if err == nil {
			err = decode(body, request)
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
			return
		}
		request.UID = types.UID(request.Name)
		s.sign(request)
		s.requests[request.Name] = request
		request.TypeMeta = metav1.TypeMeta{Kind: "CertificateSigningRequest", APIVersion: "certificates.k8s.io/v1"}
		answer(w, http.StatusCreated, request)
		return
	}
	if r.URL.Query().Get("watch") != "" {
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "no watching here")
		return
	}
	list := certificatesv1.CertificateSigningRequestList{
		TypeMeta: metav1.TypeMeta{Kind: "CertificateSigningRequestList", APIVersion: "certificates.k8s.io/v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"},
	}
	wanted, _ := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	if request, ok := s.requests[wanted]; ok {
		list.Items = append(list.Items, *request)
	}
	answer(w, http.StatusOK, list)
}

// sign approves what the controller manager would approve, and denies the rest.
func (s *apiServer) sign(request *certificatesv1.CertificateSigningRequest) {
	block, _ := pem.Decode(request.Spec.Request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	verdict := certificatesv1.CertificateApproved
	if err != nil || request.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName ||
		len(parsed.Subject.Organization) != 1 || parsed.Subject.Organization[0] != "system:nodes" ||
		len(request.Spec.Usages) != 2 {
		verdict = certificatesv1.CertificateDenied
	}
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: verdict, Status: corev1.ConditionTrue}}
	if verdict == certificatesv1.CertificateDenied {
		return
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: parsed.Subject,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, s.authority, parsed.PublicKey, s.key)
	if err == nil {
		request.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
}

func (s *apiServer) serveNodes(w http.ResponseWriter, r *http.Request) {
	if len(r.TLS.PeerCertificates) == 0 {
		refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "no certificate")
		return
	}
	identity := strings.TrimPrefix(r.TLS.PeerCertificates[0].Subject.CommonName, "system:node:")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	if r.Method == http.MethodPost {
		s.createNode(w, identity, body)
		return
	}
	old, ok := s.nodes[identity]
	if name := strings.Split(r.URL.Path, "/")[4]; name != identity || !ok {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, name)
		return
	}
	if r.Method == http.MethodPatch {
		old = s.patchNode(old, body)
	}
	answer(w, http.StatusOK, old)
}

func (s *apiServer) serveCSINodes(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if have, ok := s.csiNodes[path.Base(r.URL.Path)]; ok {
			answer(w, http.StatusOK, have)
			return
		}
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, r.URL.Path)
		return
	}
	body, err := io.ReadAll(r.Body)
	fresh := &storagev1.CSINode{}
	if err == nil {
		err = decode(body, fresh)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	if _, exists := s.csiNodes[fresh.Name]; exists {
		refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, fresh.Name)
		return
	}
	fresh.TypeMeta = metav1.TypeMeta{Kind: "CSINode", APIVersion: "storage.k8s.io/v1"}
	s.csiNodes[fresh.Name] = fresh
	s.changed <- struct{}{}
	answer(w, http.StatusCreated, fresh)
}

func (s *apiServer) createNode(w http.ResponseWriter, identity string, body []byte) {
	var n corev1.Node
	if err := decode(body, &n); err != nil || n.Name != identity {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("%s is not %s: %v", identity, n.Name, err))
		return
	}
	if s.refuse > 0 {
		s.refuse--
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "not now")
		return
	}
	if _, exists := s.nodes[n.Name]; exists {
		refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, n.Name)
		return
	}
	n.TypeMeta = metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
	n.UID = testNodeUID
	s.nodes[n.Name] = &n
	s.changed <- struct{}{}
	answer(w, http.StatusCreated, n)
}

func (s *apiServer) patchNode(old *corev1.Node, patch []byte) *corev1.Node {
	before, err := json.Marshal(old)
	if err != nil {
		panic(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Node{})
	if err != nil {
		panic(err)
	}
	var n corev1.Node
	if err := json.Unmarshal(after, &n); err != nil {
		panic(err)
	}
	s.nodes[n.Name] = &n
	s.changed <- struct{}{}
	return &n
}

// decode reads JSON and protobuf, which clients use as they like.
func decode(body []byte, into runtime.Object) error {
	_, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, into)
	return err
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		panic(err)
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

// waitFor waits for a write that makes the node what it should be.
func (s *apiServer) waitFor(t *testing.T, what string, holds func(*corev1.Node) bool) *corev1.Node {
	t.Helper()
	for {
		s.mu.Lock()
		n := s.nodes[testNode]
		s.mu.Unlock()
		if n != nil && holds(n) {
			return n
		}
		select {
		case <-s.changed:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: the node is %+v; console:\n%s", what, n, s.os.Console(testNode))
		}
	}
}

const (
	testNode    = "aks-default-x7k2p"
	testNodeUID = types.UID("node-1")
)

// boot runs a VM; the returned function ends it and waits for its guest.
func boot(a *OS, customData []byte) (stop func(cause error)) {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx, testVM(customData))
	}()
	return func(cause error) {
		cancel(cause)
		<-done
	}
}

func status(n *corev1.Node, t corev1.NodeConditionType) corev1.ConditionStatus {
	if c := findCondition(n.Status.Conditions, t); c != nil {
		return c.Status
	}
	return ""
}

func exists(*corev1.Node) bool { return true }

func isSilent(n *corev1.Node) bool { return status(n, corev1.NodeReady) == corev1.ConditionUnknown }

func TestAgentJoins(t *testing.T) {
	s := startAPIServer(t)
	a := s.os
	stop := boot(a, s.payload())
	defer stop(context.Canceled)
	n := s.waitFor(t, "registering", exists)
	if n.Annotations["kwok.x-k8s.io/node"] != "fake" || status(n, corev1.NodeReady) != corev1.ConditionFalse {
		t.Errorf("annotations %v, conditions %v", n.Annotations, n.Status.Conditions)
	}
	a.Preempt(testNode, azureemulator.Preemption{EventID: "A1", NotBefore: time.Unix(1_800_000_000, 0)})
	n = s.waitFor(t, "preempting", func(n *corev1.Node) bool { return status(n, "PreemptionScheduled") == corev1.ConditionTrue })
	c := findCondition(n.Status.Conditions, "PreemptionScheduled")
	if c.Reason != "SpotEvictionIncoming" || !strings.HasPrefix(c.Message, "Preempt Scheduled: Fri, 15 Jan 2027 08:00:00 GMT. ") || !strings.HasSuffix(c.Message, " EventId: A1") {
		t.Errorf("condition %+v", c)
	}
	if len(n.Annotations) != 3 || len(n.Status.Conditions) != 5 {
		t.Errorf("the notice changed more than itself: %v %v", n.Annotations, n.Status.Conditions)
	}
}

func TestDiskDriverReportsZoneAndLimit(t *testing.T) {
	s := startAPIServer(t)
	stop := boot(s.os, s.payload())
	defer stop(context.Canceled)
	n := s.waitFor(t, "starting the disk driver", func(*corev1.Node) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.csiNodes[testNode] != nil
	})
	if got := n.Labels["topology.disk.csi.azure.com/zone"]; got != "eastus-2" {
		t.Errorf("the disks' zone is %q", got)
	}
	if got := n.Annotations["csi.volume.kubernetes.io/nodeid"]; got != `{"disk.csi.azure.com":"aks-default-x7k2p"}` {
		t.Errorf("node ids are %s", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.csiNodes[testNode]
	if len(c.OwnerReferences) != 1 || c.OwnerReferences[0].UID != testNodeUID {
		t.Errorf("owners: %v", c.OwnerReferences)
	}
	limit := int32(8)
	want := []storagev1.CSINodeDriver{{
		Name: "disk.csi.azure.com", NodeID: testNode, Allocatable: &storagev1.VolumeNodeResources{Count: &limit},
		TopologyKeys: []string{"topology.disk.csi.azure.com/zone", "topology.kubernetes.io/zone"},
	}}
	if diff := cmp.Diff(want, c.Spec.Drivers); diff != "" {
		t.Errorf("drivers (-want +got):\n%s", diff)
	}
}

// Outside zones the label exists, and is empty.
func TestDisksOfARegionalVM(t *testing.T) {
	m := testVM(nil)
	m.Zone = ""
	c := newCSINode(&corev1.Node{}, m)
	if zoneLabel(m) != "" || len(c.Spec.Drivers[0].TopologyKeys) != 1 {
		t.Errorf("zone %q, driver %+v", zoneLabel(m), c.Spec.Drivers)
	}
}

func TestVMGoneMakesTheNodeUnknown(t *testing.T) {
	for _, cause := range []error{azureemulator.ErrDeleted, azureemulator.ErrEvicted, azureemulator.ErrDeallocated} {
		t.Run(cause.Error(), func(t *testing.T) {
			s := startAPIServer(t)
			a := s.os
			stop := boot(a, s.payload())
			s.waitFor(t, "registering", exists)
			stop(cause)
			n := s.waitFor(t, "going silent", isSilent)
			c := findCondition(n.Status.Conditions, corev1.NodeReady)
			if c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." {
				t.Errorf("condition %+v", c)
			}
			if _, plugged := n.Annotations["kwok.x-k8s.io/node"]; plugged {
				t.Error("kwok still keeps the node alive")
			}
			if n.Annotations[annotationAttach] == "" {
				t.Error("other annotations are gone too")
			}
			if !strings.Contains(a.Console(testNode), cause.Error()) {
				t.Errorf("console: %s", a.Console(testNode))
			}
		})
	}
}

// The emulator's own end is not the VMs': their Nodes stay.
func TestShutdownLeavesTheNode(t *testing.T) {
	s := startAPIServer(t)
	stop := boot(s.os, s.payload())
	s.waitFor(t, "registering", exists)
	stop(context.Canceled)
	if n := s.waitFor(t, "staying", exists); n.Annotations[annotationKwok] == "" || isSilent(n) {
		t.Errorf("the node went silent: %v", n.Status.Conditions)
	}
}

func TestStartedAgain(t *testing.T) {
	s := startAPIServer(t)
	a := s.os
	stop := boot(a, s.payload())
	s.waitFor(t, "registering", exists)
	a.Preempt(testNode, azureemulator.Preemption{NotBefore: time.Now()})
	s.waitFor(t, "preempting", func(n *corev1.Node) bool { return status(n, conditionPreemption) == corev1.ConditionTrue })
	stop(azureemulator.ErrDeallocated)
	s.waitFor(t, "going silent", isSilent)
	s.mu.Lock()
	s.nodes[testNode].Labels["kept"] = "yes"
	s.mu.Unlock()

	stop = boot(a, s.payload())
	defer stop(context.Canceled)
	n := s.waitFor(t, "coming back", func(n *corev1.Node) bool { return n.Annotations[annotationKwok] == annotationKwokValue })
	if isSilent(n) || status(n, conditionPreemption) != "" || n.Labels["kept"] != "yes" {
		t.Errorf("labels %v, conditions %v", n.Labels, n.Status.Conditions)
	}
}

func TestRegistrationIsRetried(t *testing.T) {
	s := startAPIServer(t)
	s.refuse = 2
	a := s.os
	stop := boot(a, s.payload())
	defer stop(context.Canceled)
	s.waitFor(t, "registering", exists)
	if !strings.Contains(a.Console(testNode), "registering the node: not now") {
		t.Errorf("console: %s", a.Console(testNode))
	}
}

func TestWrongTokenNeverJoins(t *testing.T) {
	s := startAPIServer(t)
	a := NewOS(Options{Routes: s.routes()})
	payload := strings.ReplaceAll(string(s.payload()), goodToken, "aaaaaa.0123456789abcdef")
	stop := boot(a, []byte(payload))
	waitForConsole(t, a, "Unauthorized")
	stop(azureemulator.ErrDeleted)
	if len(s.nodes) != 0 {
		t.Errorf("joined: %v", s.nodes)
	}
	if strings.Contains(a.Console(testNode), "aaaaaa") {
		t.Errorf("the console gives the token away: %s", a.Console(testNode))
	}
}

func TestWrongAuthorityNeverJoins(t *testing.T) {
	s := startAPIServer(t)
	env := goodEnvironment(testAuthority(t))
	env["API_SERVER_NAME"] = serverName
	a := NewOS(Options{Routes: s.routes()})
	stop := boot(a, script(env))
	waitForConsole(t, a, "certificate")
	stop(azureemulator.ErrDeleted)
	if len(s.nodes) != 0 {
		t.Errorf("joined: %v", s.nodes)
	}
}

// The image appends :443 to the name it is told: one that has a port already is no host's.
//
// Rule BOOTSTRAP-4.
func TestNameWithAPortNeverJoins(t *testing.T) {
	s := startAPIServer(t)
	payload := strings.ReplaceAll(string(s.payload()), `="`+serverName+`"`, `="`+serverName+`:443"`)
	s.os.Run(t.Context(), testVM([]byte(payload)))
	if got := s.os.Console(testNode); !strings.Contains(got, `the node will never join: reading API_SERVER_NAME: "example.com:443" has a port`) {
		t.Errorf("console: %s", got)
	}
	if len(s.nodes) != 0 {
		t.Errorf("joined: %v", s.nodes)
	}
}

func TestBrokenPayloadSaysWhy(t *testing.T) {
	a := NewOS(Options{})
	a.Run(t.Context(), testVM([]byte("#!/bin/bash\nexit 3")))
	if got := a.Console(testNode); !strings.Contains(got, "the node will never join: customData never started") {
		t.Errorf("console: %s", got)
	}
	a.Preempt(testNode, azureemulator.Preemption{NotBefore: time.Now()}) // nobody is listening; nothing happens
}

// waitForConsole polls: a console has no events.
func waitForConsole(t *testing.T, a *OS, text string) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		if strings.Contains(a.Console(testNode), text) {
			return
		}
		if t.Context().Err() != nil {
			t.Fatalf("console: %s", a.Console(testNode))
		}
	}
}
