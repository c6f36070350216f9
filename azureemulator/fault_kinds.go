// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"errors"
	"net/http"
	"time"
)

// quirkFault has the next VMs or interfaces do what they should not.
func quirkFault(surface, name string) FaultKind {
	return FaultKind{Name: name, Surface: surface, inject: func(in *injector, n NamedFault) error { in.quirks.add(name, n.Times, n.Seed); return nil }}
}

func asyncFaults() []FaultKind {
	const of = "async"
	return []FaultKind{
		requestFault(of, "OperationNotFound", http.MethodGet, operationPath, Fault{Status: http.StatusNotFound, Code: "OperationNotFound"}),
		requestFault(of, "OperationExpired", http.MethodGet, operationPath, Fault{Status: http.StatusGone, Code: "OperationExpired"}),
		requestFault(of, "OperationThrottled", http.MethodGet, operationPath, Fault{Status: http.StatusTooManyRequests, Code: "OperationNotAllowed", Flat: true, RetryAfterSeconds: 17}),
		requestFault(of, "NotFoundAfterSuccess", http.MethodGet, machinePath, Fault{Status: http.StatusNotFound, Code: "ResourceNotFound"}),
		quirkFault(of, stuckCreating), quirkFault(of, stuckUpdating), quirkFault(of, stuckDeleting), quirkFault(of, lateSuccess), quirkFault(of, lateFailure),
		quirkFault(of, wrongFinalState), quirkFault(of, deletionUndone),
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
		list = append(list, FaultKind{Name: mode, Surface: of, Target: ofSize, inject: func(in *injector, n NamedFault) error {
			return in.stock.add(Stockout{Size: n.Target, Mode: mode, Times: timesOf(n.Times), Seed: n.Seed, fault: mode})
		}})
	}
	short := func(name string, outs ...Stockout) {
		list = append(list, FaultKind{Name: name, Surface: of, Target: ofSize, inject: func(in *injector, n NamedFault) (err error) {
			for _, o := range outs {
				o.Size, o.Times, o.Seed, o.fault = n.Target, timesOf(n.Times), n.Seed, name
				err = errors.Join(err, in.stock.add(o))
			}
			return err
		}})
	}
	list = append(list, quirkFault(of, nicOrphaned))
	short("CapacityFlaps", Stockout{Mode: SkuNotAvailable, EverySeconds: 20})
	short("CapacityFlapsByZone", Stockout{Zone: "1", EverySeconds: 20}, Stockout{Zone: "2", EverySeconds: 30}, Stockout{Zone: "3", EverySeconds: 50})
	short("CapacityRecovers", Stockout{ForSeconds: 60})
	one := func(name string, act func(*injector, string) error) {
		list = append(list, FaultKind{Name: name, Surface: of, Target: ofMachine, inject: func(in *injector, n NamedFault) error { return in.strikeMachines(n, act) }})
	}
	one("Evicted30s", func(in *injector, vm string) error { return in.events.evictNamed(vm, 30*time.Second) })
	one("Evicted10s", func(in *injector, vm string) error { return in.events.evictNamed(vm, 10*time.Second) })
	one("EvictedAtOnce", func(in *injector, vm string) error { return in.events.evictNamed(vm, -1) })
	for _, kind := range []string{freeze, reboot, redeploy, terminate} {
		one(kind, func(in *injector, vm string) error { return in.events.announce(vm, kind, 0) })
	}
	one("HostFailed", func(in *injector, name string) error {
		return in.outOfBand(name, func(v *vm) {
			if v.power == running {
				in.events.restart(v, &scheduledEvent{kind: "HostFailed"}) // without a scheduled event
			}
		})
	})
	one("Deallocated", func(in *injector, name string) error {
		return in.outOfBand(name, func(v *vm) { in.fabric.beginDeallocate(v, ErrDeallocated) })
	})
	one("Resized", func(in *injector, name string) error { return in.compute.resize(name) })
	one("Deleted", func(in *injector, name string) error {
		return in.outOfBand(name, func(v *vm) { in.fabric.beginDelete(v, ErrDeleted) })
	})
	return list
}

func networkFaults() []FaultKind {
	const of = "network"
	return []FaultKind{
		requestFault(of, "SubnetIsFull", http.MethodPut, machinePath, Fault{Status: http.StatusBadRequest, Code: "SubnetIsFull", Message: "Subnet aks-subnet with address prefix 10.224.0.0/16 does not have enough capacity for 1 IP addresses."}),
		// By which code Azure refuses the next of a pool that is full is on no public record.
		requestFault(of, "BackendPoolIsFull", http.MethodPut, machinePath, Fault{Status: http.StatusBadRequest, Code: "LoadBalancerBackendAddressPoolIsFull", Message: "The number of IP configurations in backend address pool kubernetes exceeds the maximum allowed value of 5000."}),
		quirkFault(of, addressesLinger),
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
		requestFault(of, "SizesAdded", http.MethodGet, skus, Fault{}, changes(withMoreSizes)),
		momentFault(of, sizeRetired, ofSize, func(in *injector, n NamedFault) { in.sizes.retire(n.Target) }),
		requestFault(of, "SizesUnavailable", http.MethodGet, skus, Fault{Status: http.StatusServiceUnavailable}),
		requestFault(of, "SizesRestricted", http.MethodGet, skus, Fault{}, changes(everySecondRestricted)),
		requestFault(of, "QuotaWithoutLimits", http.MethodGet, "/usages$", Fault{}, changes(withoutLimits)),
		requestFault(of, "QuotaUnavailable", http.MethodGet, "/usages$", Fault{Status: http.StatusServiceUnavailable}),
		requestFault(of, "NoQuota", http.MethodGet, "/usages$", Fault{}, changes(listCut(0))),
		requestFault(of, "NoImages", http.MethodGet, "(/versions|/nodeImageVersions)$", Fault{}, changes(listCut(0))),
		requestFault(of, "ImagesUnavailable", http.MethodGet, "/versions$", Fault{Status: http.StatusServiceUnavailable}),
		requestFault(of, "NoPrices", http.MethodGet, prices, Fault{}, changes(listCut(0))),
		requestFault(of, "PricesMissing", http.MethodGet, prices, Fault{}, changes(everySecondMissing)),
		requestFault(of, "PricesOutdated", http.MethodGet, prices, Fault{}, changes(outdated)),
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
		momentFault(of, tokensRevoked, "", func(in *injector, _ NamedFault) { in.identity.revoke() }),
		momentFault(of, tokensExpired, "", func(in *injector, _ NamedFault) { in.identity.expire() }),
		momentFault(of, tokensNotYetValid, "", func(in *injector, _ NamedFault) { in.identity.issueAhead(in.clock.pace(time.Minute)) }),
		requestFault(of, "Unauthorized", "", anyPath, Fault{Status: http.StatusUnauthorized, Code: "ExpiredAuthenticationToken"}),
		requestFault(of, "Forbidden", "", anyPath, Fault{Status: http.StatusForbidden, Code: "AuthorizationFailed"}),
		requestFault(of, "RoleRemoved", "PUT|DELETE|PATCH|POST", anyPath, Fault{Status: http.StatusForbidden, Code: "AuthorizationFailed"}),
		requestFault(of, "TokensUnavailable", http.MethodPost, "/oauth2/v2.0/token$", Fault{Status: http.StatusServiceUnavailable}),
		requestFault(of, "FederationRefused", http.MethodPost, "/oauth2/v2.0/token$", Fault{Status: http.StatusUnauthorized, Code: "invalid_client"}),
		requestFault(of, "MetadataSlow", http.MethodGet, "/imds/metadata/", Fault{}, changes(unchanged), func(f *fault) { f.ofMetadata, f.delay = true, 6*time.Second }),
	}
}
