package emulator

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Named is a fault of the catalogue, as it shall strike.
type Named struct {
	// Name is one of FaultCatalogue.
	Name string `json:"name"`
	// Target narrows what it strikes: a regular expression for paths of requests, a pattern
	// with * and ? for sizes, or a machine's name, as the catalogue says. Empty: all that
	// the fault is about; faults of one machine need one.
	Target string `json:"target,omitempty"`
	// Times is how often it strikes. Zero means once, negative for ever. Faults of one
	// machine and of limits strike once.
	Times int `json:"times,omitempty"`
	// Seed above zero has a fault of requests pass some of them over: about two of three, always the
	// same ones for the same seed and sequence of requests. Zero passes none over.
	Seed uint64 `json:"seed,omitempty"`
}

// FaultKind is an entry of the catalogue of faults.
type FaultKind struct {
	Name string `json:"name"`
	// Surface is transport, throttle, async, compute, network, catalogue or identity.
	Surface string `json:"surface"`
	// Target says what a Named's Target is for it: path, size, machine, or nothing.
	Target string `json:"target,omitempty"`
	inject func(*Server, Named) error
}

// FaultCatalogue lists every fault that Inject knows.
func FaultCatalogue() []FaultKind {
	return slices.Concat(transportFaults(), throttleFaults(), asyncFaults(), computeFaults(), networkFaults(), catalogueFaults(), identityFaults())
}

// Inject lets a fault of the catalogue strike.
func (s *Server) Inject(n Named) error {
	catalogue := FaultCatalogue()
	i := slices.IndexFunc(catalogue, func(k FaultKind) bool { return k.Name == n.Name })
	if i < 0 {
		return fmt.Errorf("injecting %q: the catalogue has no such fault", n.Name)
	}
	if n.Target == "" && catalogue[i].Target == "machine" {
		return fmt.Errorf("injecting %s: its target must name a machine", n.Name)
	}
	if err := catalogue[i].inject(s, n); err != nil {
		return fmt.Errorf("injecting %s: %w", n.Name, err)
	}
	return nil
}

// Paths that faults are about unless told otherwise.
const (
	everyPath     = "" // tokens and prices too
	anyPath       = "/subscriptions/"
	machinePath   = "/virtualMachines/[^/]+$"
	interfacePath = "/networkInterfaces/[^/]+$"
	operationPath = "/operations/"
)

// requestFault is a fault of requests, by method and path; Target replaces the path.
func requestFault(surface, name, method, path string, f Fault, more ...func(*fault)) FaultKind {
	return FaultKind{Name: name, Surface: surface, Target: "path", inject: func(s *Server, n Named) error {
		f.Method, f.Path, f.Times = method, path, n.Times
		if n.Target != "" {
			f.Path = n.Target
		}
		return s.addFault(f, append(slices.Clone(more), func(at *fault) {
			at.named = &n
			if n.Seed > 0 {
				at.draw = rand.New(rand.NewPCG(n.Seed, 0x6661756c74))
			}
		})...)
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
		on("DuplicateDelivery", twice, changes(func(*answerWriter) {})),
		on("SlowAnswer", func(f *fault) { f.delay = 20 * time.Second }, changes(func(*answerWriter) {})),
		on("TruncatedBody", changes(func(w *answerWriter) { w.body.Truncate(w.body.Len() / 2) })),
		on("WrongContentType", changes(func(w *answerWriter) {
			w.header.Set("Content-Type", "text/html")
			w.body.Reset()
			w.body.WriteString("<html>Our services aren't available right now</html>")
		})),
		on("SkewedDate", changes(func(w *answerWriter) {
			w.header.Set("Date", time.Now().Add(-3*time.Hour).UTC().Format(http.TimeFormat))
		})),
		requestFault(of, string(tlsRefused), "", everyPath, Fault{}, onLine(tlsRefused)),
		requestFault(of, string(certificateExpired), "", everyPath, Fault{}, onLine(certificateExpired)),
		requestFault(of, string(nameUnknown), "", everyPath, Fault{}, onLine(nameUnknown)),
		on(string(goAway), onLine(goAway)),
		requestFault(of, "TooManyRequests", "", anyPath, Fault{Status: http.StatusTooManyRequests, RetryAfterSeconds: 5}),
		requestFault(of, "TooManyRequestsWithoutRetryAfter", "", anyPath, Fault{Status: http.StatusTooManyRequests}),
		requestFault(of, "TooManyRequestsForADay", "", anyPath, Fault{Status: http.StatusTooManyRequests, RetryAfterSeconds: 86400}),
		requestFault(of, "LostPut", http.MethodPut, anyPath, Fault{}, breaks(0)),
		requestFault(of, "LostDelete", http.MethodDelete, anyPath, Fault{}, breaks(0)),
	}
	for _, status := range []int{408, 409, 412, 423, 500, 502, 503, 504} {
		list = append(list, requestFault(of, fmt.Sprint("Status", status), "", anyPath, Fault{Status: status}))
	}
	return list
}

// throttleFaults empty one of the published buckets, or halve all limits.
func throttleFaults() []FaultKind {
	var list []FaultKind
	for _, prefix := range []string{
		"arm/reads", "arm/writes", "arm/deletes", "compute/GetVM", "compute/ListVM", "compute/PutVM", "compute/UpdateVM", "compute/DeleteVM", "compute/GetOperation",
		"aks/PUT", "aks/LIST", "aks/operation status", "aks/API",
	} {
		service, class, _ := strings.Cut(strings.ReplaceAll(prefix, " ", ""), "/")
		list = append(list, FaultKind{Name: "Exhausted" + strings.ToUpper(service[:1]) + service[1:] + strings.ToUpper(class[:1]) + class[1:], Surface: "throttle", inject: func(s *Server, _ Named) error {
			s.eachBucket(func(key string, b *bucket) {
				if strings.HasPrefix(key, prefix) {
					b.tokens = 0
				}
			})
			return nil
		}})
	}
	list = append(list, FaultKind{Name: "NeighbourSpends", Surface: "throttle", inject: func(s *Server, _ Named) error {
		s.eachBucket(func(_ string, b *bucket) { b.tokens /= 4 }) // another cluster with the same limits
		return nil
	}})
	return append(list, FaultKind{Name: "LimitsHalved", Surface: "throttle", inject: func(s *Server, _ Named) error {
		s.eachBucket(func(_ string, b *bucket) {
			b.limit.perMinute, b.limit.burst = b.limit.perMinute/2, b.limit.burst/2
			b.tokens = min(b.tokens, b.limit.burst)
		})
		return nil
	}})
}

// eachBucket visits the buckets that were used already, refilled until now.
func (s *Server) eachBucket(visit func(key string, b *bucket)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, b := range s.throttles.buckets {
		b.refill(time.Now(), s.timeScale)
		visit(key, b)
	}
}

func asyncFaults() []FaultKind {
	const of = "async"
	quirk := func(q string) FaultKind {
		return FaultKind{Name: q, Surface: of, inject: func(s *Server, n Named) error { s.addQuirk(q, n.Times); return nil }}
	}
	return []FaultKind{
		requestFault(of, "OperationNotFound", http.MethodGet, operationPath, Fault{Status: http.StatusNotFound, Code: "OperationNotFound"}),
		requestFault(of, "OperationExpired", http.MethodGet, operationPath, Fault{Status: http.StatusGone, Code: "OperationExpired"}),
		requestFault(of, "OperationThrottled", http.MethodGet, operationPath, Fault{Status: http.StatusTooManyRequests, Code: "OperationNotAllowed", Flat: true, RetryAfterSeconds: 17}),
		requestFault(of, "NotFoundAfterSuccess", http.MethodGet, machinePath, Fault{Status: http.StatusNotFound, Code: "ResourceNotFound"}),
		quirk(stuckCreating), quirk(stuckDeleting), quirk(lateSuccess), quirk(lateFailure),
	}
}

func computeFaults() []FaultKind {
	const of = "compute"
	listed := func(name string, share float64) FaultKind {
		return requestFault(of, name, http.MethodGet, "/virtualMachines$", Fault{}, changes(listCut(share)))
	}
	refused := func(name, code, words string) FaultKind {
		return requestFault(of, name, http.MethodPut, machinePath, Fault{Status: http.StatusConflict, Code: code, Message: words})
	}
	quota := func(name, what string) FaultKind {
		return refused(name, "OperationNotAllowed", "Operation could not be completed as it results in exceeding approved "+what+" quota. Additional details - Deployment Model: Resource Manager, Location: eastus, Current Limit: 10, Current Usage: 10, Additional Required: 4, (Minimum) New Limit Required: 14.")
	}
	list := []FaultKind{
		quota("FamilyQuota", "standardDSv5Family Cores"), quota("RegionalQuota", "Total Regional Cores"), quota("SpotQuota", "LowPriorityCores"),
		requestFault(of, "ImageNotFound", http.MethodPut, machinePath, Fault{Status: http.StatusNotFound, Code: "GalleryImageNotFound"}),
		requestFault(of, "NoDiskEncryptionSet", http.MethodPut, machinePath, Fault{Status: http.StatusNotFound, Code: "DiskEncryptionSetNotFound"}),
		listed("ShortMachineList", 0.5), listed("EmptyMachineList", 0),
		requestFault(of, "PolicyDenied", http.MethodPut, machinePath, Fault{Status: http.StatusForbidden, Code: "RequestDisallowedByPolicy"}),
	}
	for _, mode := range []string{SkuNotAvailable, SkuNotAvailableAsync, ZonalAllocationFailed, AllocationFailed, OverconstrainedZonalAllocationRequest, OverconstrainedAllocationRequest} {
		list = append(list, FaultKind{Name: mode, Surface: of, Target: "size", inject: func(s *Server, n Named) error {
			return s.AddStockout(Stockout{Size: n.Target, Mode: mode, Times: timesOf(n.Times)})
		}})
	}
	one := func(name string, act func(*Server, string) error) {
		list = append(list, FaultKind{Name: name, Surface: of, Target: "machine", inject: func(s *Server, n Named) error { return act(s, n.Target) }})
	}
	one("Evicted30s", func(s *Server, vm string) error { return s.Evict(vm, 30*time.Second) })
	one("Evicted10s", func(s *Server, vm string) error { return s.Evict(vm, 10*time.Second) })
	one("EvictedAtOnce", func(s *Server, vm string) error { return s.Evict(vm, -1) })
	for _, kind := range []string{freeze, reboot, redeploy, terminate} {
		one(kind, func(s *Server, vm string) error { return s.Announce(vm, kind, 0) })
	}
	one("HostFailed", func(s *Server, name string) error {
		return s.outOfBand(name, func(v *vm) {
			if v.power == running {
				s.restart(v, &scheduledEvent{kind: "HostFailed"}) // which nobody announces
			}
		})
	})
	one("Deallocated", func(s *Server, name string) error {
		return s.outOfBand(name, func(v *vm) { s.beginDeallocate(v, ErrDeallocated) })
	})
	one("Resized", (*Server).Resize)
	one("Deleted", func(s *Server, name string) error {
		return s.outOfBand(name, func(v *vm) { s.beginDelete(v, ErrDeleted) })
	})
	return list
}

// outOfBand does to a machine what somebody else does.
func (s *Server) outOfBand(name string, act func(*vm)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vmNamed(name)
	if v == nil || v.state == deleting {
		return fmt.Errorf("there is no virtual machine %s", name)
	}
	act(v)
	return nil
}

func networkFaults() []FaultKind {
	const of = "network"
	return []FaultKind{
		requestFault(of, "SubnetIsFull", http.MethodPut, machinePath, Fault{Status: http.StatusBadRequest, Code: "SubnetIsFull", Message: "Subnet aks-subnet with address prefix 10.224.0.0/16 does not have enough capacity for 1 IP addresses."}),
		requestFault(of, "JoinDenied", http.MethodPut, machinePath, Fault{Status: http.StatusForbidden, Code: "LinkedAuthorizationFailed", Message: "The client 'c' with object id 'c' has permission to perform action 'Microsoft.Compute/virtualMachines/write' on scope '/vm'; however, it does not have permission to perform action(s) 'Microsoft.Network/virtualNetworks/subnets/join/action' on the linked scope(s) '/subnet' (respectively) or the linked scope(s) are invalid."}),
		requestFault(of, "NicReserved", http.MethodDelete, interfacePath, Fault{Status: http.StatusBadRequest, Code: "NicReservedForAnotherVm", Message: "Nic(s) in request is reserved for another Virtual Machine for 180 seconds. Please provide another nic(s) or retry after 180 seconds."}),
		requestFault(of, "NicInUse", http.MethodDelete, interfacePath, Fault{Status: http.StatusBadRequest, Code: "NicInUse"}),
		requestFault(of, "NetworkBusy", "PUT|DELETE", "/Microsoft.Network/", Fault{Status: http.StatusTooManyRequests, Code: "RetryableError", RetryAfterSeconds: 10}),
		requestFault(of, "ResourceLocked", http.MethodDelete, anyPath, Fault{Status: http.StatusConflict, Code: "ScopeLocked"}),
		requestFault(of, "NoSecurityGroups", http.MethodGet, "/networkSecurityGroups$", Fault{}, changes(listCut(0))),
		requestFault(of, "NoLoadBalancers", http.MethodGet, "/loadBalancers$", Fault{}, changes(listCut(0))),
	}
}

func catalogueFaults() []FaultKind {
	const of, skus, prices = "catalogue", "/skus$", "/retail/prices$"
	price := func(name string, by func(float64) float64) FaultKind {
		return requestFault(of, name, http.MethodGet, prices, Fault{}, changes(pricesBy(by)))
	}
	return []FaultKind{
		requestFault(of, "NoSizes", http.MethodGet, skus, Fault{}, changes(listCut(0))),
		requestFault(of, "HalfTheSizes", http.MethodGet, skus, Fault{}, changes(listCut(0.5))),
		requestFault(of, "SizesUnavailable", http.MethodGet, skus, Fault{Status: http.StatusServiceUnavailable}),
		requestFault(of, "SizesRestricted", http.MethodGet, skus, Fault{}, changes(everySecondRestricted)),
		requestFault(of, "QuotaWithoutLimits", http.MethodGet, "/usages$", Fault{}, changes(withoutLimits)),
		requestFault(of, "QuotaUnavailable", http.MethodGet, "/usages$", Fault{Status: http.StatusServiceUnavailable}),
		requestFault(of, "NoQuota", http.MethodGet, "/usages$", Fault{}, changes(listCut(0))),
		requestFault(of, "ImagesUnavailable", http.MethodGet, "/versions$", Fault{Status: http.StatusServiceUnavailable}),
		requestFault(of, "NoPrices", http.MethodGet, prices, Fault{}, changes(listCut(0))),
		requestFault(of, "PricesInEuro", http.MethodGet, prices, Fault{}, changes(inEuro)),
		requestFault(of, "PricesUnavailable", http.MethodGet, prices, Fault{Status: http.StatusServiceUnavailable}),
		price("PricesZero", func(float64) float64 { return 0 }),
		price("PricesNegative", func(p float64) float64 { return -p }),
		price("PricesTimes1000", func(p float64) float64 { return 1000 * p }),
		requestFault(of, "PricesHang", http.MethodGet, prices, Fault{}, hangs),
		requestFault(of, "QuotaHangs", http.MethodGet, "/usages$", Fault{}, hangs),
	}
}

func identityFaults() []FaultKind {
	const of = "identity"
	return []FaultKind{
		{Name: "TokensRevoked", Surface: of, inject: func(s *Server, _ Named) error { s.RevokeTokens(); return nil }},
		requestFault(of, "Unauthorized", "", anyPath, Fault{Status: http.StatusUnauthorized, Code: "ExpiredAuthenticationToken"}),
		requestFault(of, "Forbidden", "", anyPath, Fault{Status: http.StatusForbidden, Code: "AuthorizationFailed"}),
		requestFault(of, "RoleRemoved", "PUT|DELETE|PATCH|POST", anyPath, Fault{Status: http.StatusForbidden, Code: "AuthorizationFailed"}),
		requestFault(of, "TokensUnavailable", http.MethodPost, "/oauth2/v2.0/token$", Fault{Status: http.StatusServiceUnavailable}),
		requestFault(of, "FederationRefused", http.MethodPost, "/oauth2/v2.0/token$", Fault{Status: http.StatusUnauthorized, Code: "invalid_client"}),
	}
}

func timesOf(times int) int {
	if times == 0 {
		return 1
	}
	return max(times, 0) // a Stockout's zero is for ever
}

func (s *Server) adminInject(r *request) (reply, error) {
	var n Named
	return decodeThen(r, &n, func() error { return s.Inject(n) })
}

func (s *Server) adminCatalogue(*request) (reply, error) { return ok(FaultCatalogue()) }
