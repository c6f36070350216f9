// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"sigs.k8s.io/karpenter/kwok/apis"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/local"
)

// kwokClass is the node class of upstream's kwok provider.
const kwokClass = `
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
`

// upstream is Karpenter's command with its kwok provider.
type upstream struct {
	binary, log string
	env         *local.Environment

	command *exec.Cmd
	ended   chan struct{}
	ports   [2]string // of metrics and of probes
}

// newUpstream prepares the cluster for upstream; binary is its command.
func newUpstream(ctx context.Context, binary, dir string, env *local.Environment) (*upstream, error) {
	if err := env.Apply(ctx, apis.KWOKNodeClassCRD); err != nil {
		return nil, err
	}
	err := local.Until(ctx, time.Minute, "KWOKNodeClasses are served", func(ctx context.Context) (bool, error) {
		err := env.Apply(ctx, []byte(kwokClass))
		return err == nil, err
	})
	return &upstream{binary: binary, log: filepath.Join(dir, "logs", "upstream.log"), env: env}, err
}

func (u *upstream) name() string { return "upstream" }

func (u *upstream) origin() origin {
	return origin{
		class:        karpv1.NodeClassReference{Group: apis.Group, Kind: "KWOKNodeClass", Name: "default"},
		instanceType: "s-16x-amd64-linux", zone: "test-zone-a",
		providerID: func(node string) string { return "kwok://" + node },
	}
}

// made does nothing: the kwok provider's instances are the Nodes.
func (u *upstream) made(context.Context, *karpv1.NodeClaim, string) error { return nil }

func (u *upstream) start(ctx context.Context) error {
	if err := u.choosePorts(ctx); err != nil {
		return err
	}
	log, err := os.OpenFile(u.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of upstream: %w", err)
	}
	defer log.Close() // the process has its own copy
	u.command, u.ended = exec.Command(u.binary), make(chan struct{})
	u.command.Env = append(os.Environ(), "KUBECONFIG="+u.env.Kubeconfig(), "METRICS_PORT="+u.ports[0], "HEALTH_PROBE_PORT="+u.ports[1],
		"LEADER_ELECTION_NAMESPACE=kube-system", "SYSTEM_NAMESPACE=kube-system", "LOG_LEVEL=error")
	u.command.Stdout, u.command.Stderr = log, log
	u.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := u.command.Start(); err != nil {
		return fmt.Errorf("starting upstream: %w", err)
	}
	go func(c *exec.Cmd, ended chan struct{}) { _ = c.Wait(); close(ended) }(u.command, u.ended)
	err = local.Until(ctx, 2*time.Minute, "upstream is ready", func(ctx context.Context) (bool, error) {
		return u.hasEnded() || answers(ctx, "http://127.0.0.1:"+u.ports[1]+"/readyz"), nil
	})
	if u.hasEnded() {
		return errors.New("upstream ended by itself; see " + u.log)
	}
	return err
}

func (u *upstream) hasEnded() bool {
	select {
	case <-u.ended:
		return true
	default:
		return false
	}
}

// choosePorts asks the kernel for unused ports, which are free again when it returns.
func (u *upstream) choosePorts(ctx context.Context) error {
	for i := range u.ports {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("finding a free port: %w", err)
		}
		defer l.Close() // after all are found, so that they differ
		u.ports[i] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	return nil
}

// stop ends the process as Kubernetes would.
func (u *upstream) stop() error {
	if u.command == nil || u.command.Process == nil {
		return nil
	}
	if err := u.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping upstream: %w", err)
	}
	select {
	case <-u.ended:
	case <-time.After(10 * time.Second):
		_ = u.command.Process.Kill() // it may have ended just now
		<-u.ended
	}
	return nil
}

func (u *upstream) process() (pid int, metrics string) {
	return u.command.Process.Pid, "http://127.0.0.1:" + u.ports[0] + "/metrics"
}
