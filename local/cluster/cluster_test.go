// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/karve-dev/karve/local/cluster"
	"github.com/karve-dev/karve/local/cluster/clustertest"
)

// TestCluster uses one cluster for all that leaves it whole.
func TestCluster(t *testing.T) {
	dir := t.TempDir()
	c, client := clustertest.Start(t, dir)
	for name, test := range map[string]func(*testing.T, *cluster.Cluster, kubernetes.Interface){
		"a pod runs and is gone":                   podLives,
		"init containers and sidecars are done":    podWithInitContainers,
		"a job completes":                          jobCompletes,
		"a deleted job pod has failed":             jobPodFails,
		"a node keeps what it registered":          nodeKeepsRegistration,
		"a node without annotation is left alone":  unpluggedNode,
		"a kubelet bootstraps with the token":      kubeletBootstraps,
		"the kubeconfig works":                     kubeconfigWorks,
		"a second cluster in the same dir is told": secondClusterRefused(dir),
		"etcd finds its configuration sound":       etcdWarnsOfNothing(dir),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for the cluster, and rarely for each other
			test(t, c, client)
		})
	}
}

// Where etcd answers HTTP/1 and gRPC on one port, many reads can starve watches, and it says so
// when it starts (https://github.com/etcd-io/etcd/issues/15402).
func etcdWarnsOfNothing(dir string) func(*testing.T, *cluster.Cluster, kubernetes.Interface) {
	return func(t *testing.T, _ *cluster.Cluster, _ kubernetes.Interface) {
		log, err := os.ReadFile(filepath.Join(dir, "logs", "etcd.log"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "not recommended") {
				t.Error(strings.TrimSpace(line))
			}
		}
	}
}

func podLives(t *testing.T, _ *cluster.Cluster, client kubernetes.Interface) {
	register(t, client, "lives")
	p := pod("lives", "lives")
	p.Annotations = map[string]string{"karve.dev/simulated-shutdown-seconds": "3"}
	create(t, client, p)
	got := running(t, client, "lives")
	if got.Status.HostIP != nodeIP || got.Status.PodIP == "" || got.Spec.NodeName != "lives" {
		t.Errorf("on %q with host IP %q and pod IP %q", got.Spec.NodeName, got.Status.HostIP, got.Status.PodIP)
	}

	// Thirty seconds of grace are a limit, not a duration; three were asked for.
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "lives", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "pod gone", func(ctx context.Context) error { return gone(ctx, client, "lives") })
}

func gone(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(errors.New("still there"), err)
}

func podWithInitContainers(t *testing.T, _ *cluster.Cluster, client kubernetes.Interface) {
	register(t, client, "inits")
	always := corev1.ContainerRestartPolicyAlways
	p := pod("inits", "inits")
	p.Spec.InitContainers = []corev1.Container{
		{Name: "first", Image: "example.com/first:1"},
		{Name: "sidecar", Image: "example.com/sidecar:1", RestartPolicy: &always},
	}
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/routed"}}
	create(t, client, p)

	got := running(t, client, "inits").Status
	if len(got.InitContainerStatuses) != 2 || len(got.ContainerStatuses) != 1 {
		t.Fatalf("container statuses are %+v and %+v", got.InitContainerStatuses, got.ContainerStatuses)
	}
	first, sidecar := got.InitContainerStatuses[0].State, got.InitContainerStatuses[1].State
	if first.Terminated == nil || first.Terminated.ExitCode != 0 {
		t.Errorf("the init container is %+v, want it completed", first)
	}
	if sidecar.Running == nil {
		t.Errorf("the sidecar is %+v, want it running", sidecar)
	}
	for _, condition := range []corev1.PodConditionType{corev1.PodReady, "example.com/routed"} {
		if !hasCondition(got.Conditions, condition) {
			t.Errorf("condition %s is not true in %+v", condition, got.Conditions)
		}
	}
}

func hasCondition(conditions []corev1.PodCondition, want corev1.PodConditionType) bool {
	for _, c := range conditions {
		if c.Type == want {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func jobCompletes(t *testing.T, _ *cluster.Cluster, client kubernetes.Interface) {
	register(t, client, "job")
	createJob(t, client, "job", "1s")
	clustertest.Eventually(t, "job complete", func(ctx context.Context) error {
		got, err := client.BatchV1().Jobs("default").Get(ctx, "job", metav1.GetOptions{})
		if err == nil && got.Status.Succeeded != 1 {
			err = fmt.Errorf("status is %+v", got.Status)
		}
		return err
	})
}

// A drained Job pod must count as failed and lose its tracking finalizer, or a
// node with Jobs never empties.
func jobPodFails(t *testing.T, _ *cluster.Cluster, client kubernetes.Interface) {
	register(t, client, "drained")
	createJob(t, client, "drained", "1h")
	var name string
	clustertest.Eventually(t, "job's pod", func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "job-name=drained"})
		if err == nil && len(pods.Items) != 1 {
			err = fmt.Errorf("%d pods", len(pods.Items))
		}
		if err == nil {
			name = pods.Items[0].Name
		}
		return err
	})
	running(t, client, name)
	if err := client.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "job's pod gone", func(ctx context.Context) error { return gone(ctx, client, name) })
	clustertest.Eventually(t, "failure counted", func(ctx context.Context) error {
		got, err := client.BatchV1().Jobs("default").Get(ctx, "drained", metav1.GetOptions{})
		if err == nil && (got.Status.Failed != 1 || got.Status.Succeeded != 0) {
			err = fmt.Errorf("status is %+v", got.Status)
		}
		return err
	})
}

// createJob runs one pod for the duration on the node of the job's name.
func createJob(t *testing.T, client kubernetes.Interface, name, runtime string) {
	t.Helper()
	template := pod("", name)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	template.Annotations = map[string]string{"karve.dev/simulated-runtime": runtime}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: template.ObjectMeta, Spec: template.Spec,
		}},
	}
	if _, err := client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func nodeKeepsRegistration(t *testing.T, _ *cluster.Cluster, client kubernetes.Interface) {
	before := register(t, client, "kept")
	clustertest.Eventually(t, "ready", func(ctx context.Context) error { return readiness(ctx, client, "kept", corev1.ConditionTrue) })
	renewed(t, client, "kept")
	var after *corev1.Node
	clustertest.Eventually(t, "taint of the unready removed", func(ctx context.Context) (err error) {
		after, err = client.CoreV1().Nodes().Get(ctx, "kept", metav1.GetOptions{})
		if err == nil && len(after.Spec.Taints) != 1 {
			err = fmt.Errorf("taints are %+v", after.Spec.Taints)
		}
		return err
	})

	type registration struct {
		Labels                map[string]string
		Taints                []corev1.Taint
		Capacity, Allocatable corev1.ResourceList
		Addresses             []corev1.NodeAddress
		Info                  corev1.NodeSystemInfo
	}
	of := func(n *corev1.Node, taints []corev1.Taint) registration {
		return registration{n.Labels, taints, n.Status.Capacity, n.Status.Allocatable, n.Status.Addresses, n.Status.NodeInfo}
	}
	want := of(before, unregistered("kept").Spec.Taints)
	if diff := cmp.Diff(want, of(after, after.Spec.Taints)); diff != "" {
		t.Errorf("registration changed (-then +now):\n%s", diff)
	}
}

func unpluggedNode(t *testing.T, _ *cluster.Cluster, client kubernetes.Interface) {
	ctx := t.Context()
	for _, name := range []string{"plugged", "unplugged"} {
		register(t, client, name)
		clustertest.Eventually(t, name+" ready", func(ctx context.Context) error { return readiness(ctx, client, name, corev1.ConditionTrue) })
	}
	unplug := []byte(`{"metadata":{"annotations":{"kwok.x-k8s.io/node":null}}}`)
	if _, err := client.CoreV1().Nodes().Patch(ctx, "unplugged", types.MergePatchType, unplug, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	notReady := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Gone"}]}}`)
	if _, err := client.CoreV1().Nodes().Patch(ctx, "unplugged", types.StrategicMergePatchType, notReady, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	// A renewal may have been under way. After the first of the living node, which is
	// in the same queue, it is not any more.
	renewedAgain(t, client, "plugged")
	last := renewed(t, client, "unplugged")

	// Both would be renewed every ten seconds, give or take.
	renewedAgain(t, client, "plugged")
	renewedAgain(t, client, "plugged")
	if now := renewed(t, client, "unplugged"); !now.Equal(last) {
		t.Errorf("the unplugged node's lease was renewed at %s, after %s", now, last)
	}
	if err := readiness(ctx, client, "unplugged", corev1.ConditionFalse); err != nil {
		t.Errorf("the unplugged node: %v", err)
	}
}

// renewedAgain waits for the next renewal of the node's lease.
func renewedAgain(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	before := renewed(t, client, name)
	clustertest.Eventually(t, "renewal of "+name, func(context.Context) error {
		if !renewed(t, client, name).After(before) {
			return errors.New("not renewed")
		}
		return nil
	})
}

// kubeletBootstraps asks for a client certificate as a kubelet does that has nothing
// but the token and the CA.
func kubeletBootstraps(t *testing.T, c *cluster.Cluster, _ kubernetes.Interface) {
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: c.Endpoint(), BearerToken: c.BootstrapToken(),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.CAData()},
	})
	if err != nil {
		t.Fatal(err)
	}
	request := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "node-csr-aks-1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    signingRequest(t, "system:node:aks-1", "system:nodes"),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	requests := client.CertificatesV1().CertificateSigningRequests()
	if _, err := requests.Create(t.Context(), request, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "certificate issued", func(ctx context.Context) error {
		got, err := requests.Get(ctx, request.Name, metav1.GetOptions{})
		if err == nil && len(got.Status.Certificate) == 0 {
			err = fmt.Errorf("conditions are %+v", got.Status.Conditions)
		}
		return err
	})
}

func signingRequest(t *testing.T, user, group string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: []string{group}}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func kubeconfigWorks(t *testing.T, c *cluster.Cluster, _ kubernetes.Interface) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(version.GitVersion, "v1.") || version.Major != "1" {
		t.Errorf("the server says it is %+v, want a release", version)
	}
}

func secondClusterRefused(dir string) func(*testing.T, *cluster.Cluster, kubernetes.Interface) {
	return func(t *testing.T, _ *cluster.Cluster, _ kubernetes.Interface) {
		_, err := cluster.Start(t.Context(), cluster.Options{Dir: dir, Binary: clustertest.Binary(t)})
		if err == nil || !strings.Contains(err.Error(), "in use by another cluster") {
			t.Errorf("second start in %s: %v, want a refusal", dir, err)
		}
	}
}

func TestDeadComponentIsNamed(t *testing.T) {
	c, _ := clustertest.Start(t, t.TempDir())
	if err := c.Err(); err != nil {
		t.Fatalf("while all is well: %v", err)
	}
	if err := syscall.Kill(c.Processes()["kube-scheduler"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	var dead *cluster.ComponentError
	if err := c.Err(); !errors.As(err, &dead) || dead.Component != "kube-scheduler" {
		t.Fatalf("got %v, want the scheduler named", err)
	}
	if !strings.Contains(dead.LogTail, "Serving securely") {
		t.Errorf("the last log lines are %q", dead.LogTail)
	}
}

func TestMissingBinarySaysHowToBuildIt(t *testing.T) {
	_, err := cluster.Start(t.Context(), cluster.Options{Dir: t.TempDir(), Binary: "/nowhere/karve-controlplane"})
	if err == nil || !strings.Contains(err.Error(), "make controlplane") {
		t.Errorf("got %v, want a hint to make controlplane", err)
	}
}
