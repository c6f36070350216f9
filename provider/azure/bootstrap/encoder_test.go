// SPDX-License-Identifier: Apache-2.0

package bootstrap_test

import (
	"encoding/base64"
	"testing"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
)

// An Encoder never returns cached data for another node, nor for the same one after it changed.
func TestEncoderWritesWhatEncodeWrites(t *testing.T) {
	var e bootstrap.Encoder
	n := testNode()
	n.Kubelet = &v1beta1.KubeletConfiguration{}
	changes := []func(){
		func() {},
		func() { n.Token = "000000.0123456789abcdef" },
		func() { n.MaxPods++ },
		func() { n.Taints = append(n.Taints, provider.Taint{Key: "a", Effect: "NoSchedule"}) },
		func() { n.Taints[0].Key = "b" },
		func() { n.Labels["a"] = "c" },
		func() { n.Kubelet.PodPidsLimit = new(int64(7000)) },
		func() { *n.Kubelet.PodPidsLimit = 8000 },
		func() { n.Network.DualStack = !n.Network.DualStack },
	}
	for i, change := range changes {
		change()
		for _, c := range []bootstrap.Contract{bootstrap.Environment, bootstrap.Structured, bootstrap.Environment} {
			raw, err := bootstrap.Encode(n, c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.CustomData(n, c)
			if err != nil || got != base64.StdEncoding.EncodeToString(raw) {
				t.Errorf("change %d, %s: another node was written (%v)", i, c, err)
			}
		}
	}
	n.Token = "short"
	if data, err := e.CustomData(n, bootstrap.Environment); err == nil || data != "" {
		t.Error("a token that is none was taken")
	}
}

// Encoding the same node again is cheap.
func TestEncoderRemembers(t *testing.T) {
	var e bootstrap.Encoder
	once := testing.AllocsPerRun(10, func() { _, _ = bootstrap.Encode(testNode(), bootstrap.Environment) })
	again := testing.AllocsPerRun(10, func() { _, _ = e.CustomData(testNode(), bootstrap.Environment) })
	if 3*again > once {
		t.Errorf("%v allocations to write a node, %v to write it once more", once, again)
	}
}
