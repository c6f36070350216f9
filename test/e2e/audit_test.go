// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/karve-dev/karve/api/access"
	"github.com/karve-dev/karve/local"
)

// An auditor beside karve, with no more than its role, finds a NodeClaim that a user created over its
// NodePool's limit, and nothing else; it ends when it is asked to.
//
// Rule AUDIT-1, Rule AUDIT-2.
func TestAuditFindsNodeClaimOverItsLimit(t *testing.T) {
	env := environment(t)
	settle(t, env)
	a := startAudit(t, env)
	apply(t, env, append(pool("audited", "default", ""), "  limits: {nodes: 0}\n"...))
	apply(t, env, []byte(`
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: by-hand, labels: {karpenter.sh/nodepool: audited}}
spec:
  nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: default}
  requirements: [{key: karpenter.azure.com/sku-family, operator: In, values: [D]}]
  resources: {requests: {cpu: "1"}}
`))
	a.waitFor(t, `karve_audit_violations{invariant="S5"} 1`)
	for line := range strings.Lines(a.metrics(t)) {
		if strings.HasPrefix(line, "karve_audit_violations") && !strings.Contains(line, `"S5"`) && !strings.HasSuffix(line, " 0\n") {
			t.Errorf("the auditor found more: %s", line)
		}
	}
	a.stop(t)
	text, err := os.ReadFile(a.log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "nodeclaim/by-hand brought its nodes to 1, more than the limit of 0") {
		t.Errorf("the log does not say which limit was exceeded, and by what:\n%s", text)
	}
}

// auditor is "karve audit" as a process.
type auditor struct {
	process *exec.Cmd
	url     string // of its metrics
	log     string
}

// startAudit starts an auditor as its service account, and returns when it knows cluster and cloud.
func startAudit(t *testing.T, env *local.Environment) *auditor {
	t.Helper()
	b, err := raced.build()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	a := &auditor{process: exec.Command(b.karve, "audit"), url: "http://127.0.0.1:" + port + "/metrics", log: filepath.Join(t.TempDir(), "audit.log")}
	log, err := os.Create(a.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the process has its own copy
	a.process.Stdout, a.process.Stderr = log, log
	for _, setting := range env.Emulator().Environ() {
		a.process.Env = append(a.process.Env, setting)
		if file, ok := strings.CutPrefix(setting, "SSL_CERT_FILE="); ok { // which is not honoured on macOS
			a.process.Env = append(a.process.Env, "AZURE_CA_FILE="+file)
		}
	}
	a.process.Env = append(a.process.Env,
		"PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"), "KUBECONFIG="+auditKubeconfig(t, env), "METRICS_PORT="+port,
		"CLUSTER_NAME=karve", "AZURE_NODE_RESOURCE_GROUP="+env.Emulator().NodeResourceGroup(), "LIST_EVERY=2s", "OBJECT_LAG=1s")
	if err := a.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if a.process.ProcessState == nil { // the test failed
			_ = a.process.Process.Kill()
			_ = a.process.Wait()
		}
	})
	a.waitFor(t, "karve_audit_checked_timestamp_seconds 1", "karve_audit_listed_timestamp_seconds 1") // both begin like that
	return a
}

// auditKubeconfig installs the auditor's role, and returns a kubeconfig with which one is its account.
func auditKubeconfig(t *testing.T, env *local.Environment) string {
	t.Helper()
	for _, object := range access.AuditObjects(metav1.NamespaceSystem) {
		if err := env.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := env.Client().Delete(context.WithoutCancel(t.Context()), object); err != nil {
				t.Error(err)
			}
		})
	}
	config, err := clientcmd.LoadFromFile(env.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range config.AuthInfos {
		who.Impersonate = access.AuditUser(metav1.NamespaceSystem)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// waitFor waits until its metrics have all the words.
func (a *auditor) waitFor(t *testing.T, words ...string) {
	t.Helper()
	err := local.Until(t.Context(), waitLimit, fmt.Sprintf("the auditor says %q", words), func(ctx context.Context) (bool, error) {
		text, err := a.read(ctx)
		return err == nil && containsAll(text, words), err
	})
	if err != nil {
		text, _ := os.ReadFile(a.log)
		t.Fatalf("%v\n%s", err, text)
	}
}

func (a *auditor) metrics(t *testing.T) string {
	t.Helper()
	text, err := a.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (a *auditor) read(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(text), err
}

// stop asks the auditor to end, which is no failure.
func (a *auditor) stop(t *testing.T) {
	t.Helper()
	if err := a.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := a.process.Wait(); err != nil {
		t.Errorf("the auditor ended with %v", err)
	}
}
