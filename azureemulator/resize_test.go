// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"strings"
	"testing"
	"time"
)

// A VM that somebody resizes is another size everywhere: in lists, in quota and to its
// guest, who begins anew.
func TestVMIsResized(t *testing.T) {
	inBubble(t, Options{SystemNodes: -1}, func(b *bubble) {
		b.running("vm")
		was := b.named("vm")
		b.inject(NamedFault{Name: "Resized", Target: "vm"})
		now := b.named("vm")
		if now.Size == was.Size || now.Power != starting || b.Capacity.sizes.known(now.Size).Family != b.Capacity.sizes.known(was.Size).Family {
			t.Errorf("it was %+v and is %+v", was, now)
		}
		if b.Capacity.sizes.known(now.Size).VCPUs <= b.Capacity.sizes.known(was.Size).VCPUs {
			t.Errorf("from %s to %s: a larger one is to be had", was.Size, now.Size)
		}
		if _, text, err := b.try("GET", b.path(vmKind, "vm"), ""); err != nil || !strings.Contains(text, `"vmSize":"`+now.Size+`"`) {
			t.Errorf("%s, %v", text, err)
		}
		time.Sleep(2 * time.Minute)
		if got := b.named("vm").Power; got != running {
			t.Errorf("two minutes later it is %s", got)
		}
		if err := b.CheckInvariants(); err != nil {
			t.Error(err)
		}
		for _, name := range []string{b.Capacity.sizes.known(now.Size).Family, lowPriorityCores} {
			if err := b.Capacity.SetQuota(name, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"nobody", "vm"} {
			if err := b.Inject(NamedFault{Name: "Resized", Target: name}); err == nil {
				t.Errorf("%s was resized, though there is none, or no quota", name)
			}
		}
	})
}

// A VM whose creation was reported as done may turn out to have failed: it has no power,
// and its operation says so from then on.
func TestCreationThatFailsLate(t *testing.T) {
	inBubble(t, Options{SystemNodes: -1, TimeScale: 1}, func(b *bubble) {
		b.inject(NamedFault{Name: lateFailure})
		w := b.send("PUT", b.path(vmKind, "vm"), b.vmBody("vm"))
		operation := w.Header().Get("Azure-AsyncOperation")
		operation = operation[strings.Index(operation, "/subscriptions"):]
		told := map[string]bool{}
		for range 120 {
			_, text, err := b.try("GET", operation, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, status := range []string{inProgress, succeeded, failed} {
				told[status] = told[status] || strings.Contains(text, `"status":"`+status+`"`)
			}
			time.Sleep(5 * time.Second)
		}
		if s := b.named("vm"); !told[inProgress] || !told[succeeded] || !told[failed] || s.Provisioning != failed || s.Power != "" || s.Failure == "" {
			t.Errorf("the operation said %v, and the VM is %+v", told, s)
		}
	})
}
