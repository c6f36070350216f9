// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// NamedFault is a fault of the catalogue, as it shall strike.
type NamedFault struct {
	// Name is one of FaultCatalogue.
	Name string `json:"name"`
	// Target narrows what it strikes: a regular expression for paths of requests, a pattern
	// with * and ? for sizes, or a VM's name, as the catalogue says. Empty: all that
	// the fault is about; faults of one VM need one, or a seed to choose by.
	Target string `json:"target,omitempty"`
	// Times is how often it strikes. Zero means once, negative for ever. Faults of limits,
	// of all tokens and of one VM that is named strike once.
	Times int `json:"times,omitempty"`
	// Seed above zero has chance decide what is struck, alike for the same seed and the same
	// course of events. Of requests, creations, deletions and the like about two of three are
	// passed over; of VMs that many are chosen as Times says; what strikes all at once
	// does so at some moment of the next minute. Zero passes nothing over and waits for nothing.
	Seed uint64 `json:"seed,omitempty"`
}

// FaultKind is an entry of the catalogue of faults.
type FaultKind struct {
	Name string `json:"name"`
	// Surface is transport, throttle, async, compute, network, catalogue or identity.
	Surface string `json:"surface"`
	// Target says what a NamedFault's Target is for it: path, size, machine (a VM by name), or
	// nothing.
	Target string `json:"target,omitempty"`
	inject func(*injector, NamedFault) error
}

// FaultCatalogue lists every fault that Inject knows.
func FaultCatalogue() []FaultKind {
	return slices.Concat(transportFaults(), throttleFaults(), asyncFaults(), computeFaults(), networkFaults(), catalogueFaults(), identityFaults())
}

// injector lets faults of the catalogue strike whatever they are about.
type injector struct {
	faults    *faults
	quirks    *quirks
	stock     *stock
	vms       *virtualMachines
	events    *maintenance
	fabric    *fabric
	compute   *compute
	sizes     *sizes
	identity  *identity
	throttles *throttles
	struck    *strikes
	clock     *clock
}

// clear ends every fault of requests, and what VMs do that they should not. What has struck
// already stays. Sizes that were retired are offered again.
func (in *injector) clear() {
	in.faults.clear()
	in.quirks.clear()
	in.sizes.offerRetired()
}

// inject lets a fault of the catalogue strike.
func (in *injector) inject(n NamedFault) error {
	catalogue := FaultCatalogue()
	i := slices.IndexFunc(catalogue, func(k FaultKind) bool { return k.Name == n.Name })
	if i < 0 {
		return fmt.Errorf("injecting %q: the catalogue has no such fault", n.Name)
	}
	if n.Target == "" && n.Seed == 0 && catalogue[i].Target == ofMachine {
		return fmt.Errorf("injecting %s: its target must name a VM, or a seed choose one", n.Name)
	}
	if err := catalogue[i].inject(in, n); err != nil {
		return fmt.Errorf("injecting %s: %w", n.Name, err)
	}
	return nil
}

// What the target of a NamedFault may be.
const (
	ofPath    = "path"
	ofSize    = "size"
	ofMachine = "machine"
)

// Paths that faults are about unless they have a target.
const (
	everyPath     = "" // tokens and prices too
	anyPath       = "/subscriptions/"
	machinePath   = "/virtualMachines/[^/]+$"
	interfacePath = "/networkInterfaces/[^/]+$"
	operationPath = "/operations/"
)

// requestFault is a fault of requests, by method and path; Target replaces the path.
func requestFault(surface, name, method, path string, f Fault, more ...func(*fault)) FaultKind {
	return FaultKind{Name: name, Surface: surface, Target: ofPath, inject: func(in *injector, n NamedFault) error {
		f.Method, f.Path, f.Times = method, path, n.Times
		if n.Target != "" {
			f.Path = n.Target
		}
		return in.faults.add(f, append(slices.Clone(more), func(at *fault) {
			at.named, at.luck.seed = &n, n.Seed
		})...)
	}}
}

// momentFault strikes all that it is about, at once or at a moment that the seed draws.
func momentFault(surface, name, target string, act func(*injector, NamedFault)) FaultKind {
	return FaultKind{Name: name, Surface: surface, Target: target, inject: func(in *injector, n NamedFault) error {
		if n.Seed == 0 {
			act(in, n)
			return nil
		}
		moment := time.Duration(rand.New(rand.NewPCG(n.Seed, 0)).Int64N(int64(time.Minute)))
		in.clock.agenda.after(in.clock.pace(moment), func() { act(in, n) })
		return nil
	}}
}

func transportFaults() []FaultKind {
	const of = "transport"
	on := func(name string, more ...func(*fault)) FaultKind {
		return requestFault(of, name, "", anyPath, Fault{}, more...)
	}
	list := []FaultKind{
		on("ResetBeforeSend", breaks(0), before),
		on("ResetAfterCommit", breaks(0)),
		on("TimeoutBeforeSend", breaks(time.Minute), before),
		on("TimeoutAfterCommit", breaks(time.Minute)),
		on("DuplicateDelivery", twice, changes(unchanged)),
		on("SlowAnswer", func(f *fault) { f.delay = 20 * time.Second }, changes(unchanged)),
		requestFault(of, "SlowBody", "", everyPath, Fault{}, dribbles(90*time.Second)),
		on("ReorderedAnswers", reorders),
		on("TruncatedBody", changes(func(w *answerWriter) { w.body.Truncate(w.body.Len() / 2) })),
		on("WrongContentType", changes(func(w *answerWriter) {
			w.header.Set("Content-Type", "text/html")
			w.body.Reset()
			w.body.WriteString("<html>Our services aren't available right now</html>")
		})),
		on("SkewedDate", changes(func(w *answerWriter) {
			w.header.Set("Date", time.Now().Add(-3*time.Hour).UTC().Format(http.TimeFormat))
		})),
		requestFault(of, "IdsInOtherCase", "", everyPath, Fault{}, changes(inCapitals)),
		requestFault(of, string(tlsRefused), "", everyPath, Fault{}, onLine(tlsRefused)),
		requestFault(of, string(certificateExpired), "", everyPath, Fault{}, onLine(certificateExpired)),
		requestFault(of, string(nameUnknown), "", everyPath, Fault{}, onLine(nameUnknown)),
		on(string(goAway), onLine(goAway)),
		requestFault(of, "TooManyRequests", "", anyPath, Fault{Status: http.StatusTooManyRequests, RetryAfterSeconds: 5}),
		requestFault(of, "TooManyRequestsWithoutRetryAfter", "", anyPath, Fault{Status: http.StatusTooManyRequests}),
		requestFault(of, "TooManyRequestsForADay", "", anyPath, Fault{Status: http.StatusTooManyRequests, RetryAfterSeconds: 86400}),
		on("TooManyRequestsByAnotherClock", before, changes(byAnotherClock)),
		requestFault(of, "LostPut", http.MethodPut, anyPath, Fault{}, breaks(0)),
		requestFault(of, "LostDelete", http.MethodDelete, anyPath, Fault{}, breaks(0)),
	}
	for _, status := range []int{408, 409, 412, 423, 500, 502, 503, 504} {
		list = append(list, requestFault(of, fmt.Sprint("Status", status), "", anyPath, Fault{Status: status}))
	}
	return list
}

// limitsHalved is the fault that cuts all limits.
const limitsHalved = "LimitsHalved"

// throttleFaults empty one of the published buckets for a while, or halve all limits.
func throttleFaults() []FaultKind {
	const of = "throttle"
	var list []FaultKind
	short := func(name string, share float64, d time.Duration, keys func(string) bool) {
		list = append(list, momentFault(of, name, "", func(in *injector, _ NamedFault) {
			in.throttles.begin(shortage{fault: name, left: share, of: keys}, d)
		}))
	}
	for _, prefix := range []string{
		"arm/reads", "arm/writes", "arm/deletes", "compute/GetVM", "compute/ListVM", "compute/PutVM", "compute/UpdateVM", "compute/DeleteVM", "compute/GetOperation",
		"aks/PUT", "aks/LIST", "aks/operation status", "aks/API",
	} {
		service, class, _ := strings.Cut(strings.ReplaceAll(prefix, " ", ""), "/")
		short("Exhausted"+strings.ToUpper(service[:1])+service[1:]+strings.ToUpper(class[:1])+class[1:], 0, exhaustedFor, sharedBuckets(prefix))
	}
	short("ExhaustedTenant", 0, exhaustedFor, sharedBuckets("tenant/"))
	short("NeighbourSpends", 0.25, spendsFor, ofAll) // another cluster with the same limits
	return append(list, momentFault(of, limitsHalved, "", func(in *injector, _ NamedFault) { in.throttles.cut(limitsHalved) }))
}

func timesOf(times int) int {
	if times == 0 {
		return 1
	}
	return max(times, 0) // a Stockout's zero is for ever
}

// strikeMachines has something happen to the VM that is named, or to some that the seed chooses.
func (in *injector) strikeMachines(n NamedFault, act func(*injector, string) error) error {
	strike := func(name string) error {
		err := act(in, name)
		if err == nil {
			in.struck.note(n.Name)
		}
		return err
	}
	if n.Target != "" {
		return strike(n.Target)
	}
	names := in.vms.running()
	rand.New(rand.NewPCG(n.Seed, 0)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	struck, wanted := 0, max(n.Times, 1)
	if n.Times < 0 {
		wanted = len(names)
	}
	for _, name := range names {
		if struck < wanted && strike(name) == nil { // what cannot be done to one may be done to the next
			struck++
		}
	}
	if struck == 0 {
		return errors.New("there is no VM that it could strike")
	}
	return nil
}

// outOfBand does to a VM what another client of the subscription would.
func (in *injector) outOfBand(name string, act func(*vm)) error {
	in.clock.Lock()
	defer in.clock.Unlock()
	v := in.vms.named(name)
	if v == nil || v.state == deleting {
		return fmt.Errorf("there is no virtual machine %s", name)
	}
	act(v)
	return nil
}
