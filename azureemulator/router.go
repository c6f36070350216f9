// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"strings"
)

// handler answers the requests of a route.
type handler func(*request) (reply, error)

// route ties a method and a path to a handler. Path segments compare without
// letter case, as Resource Manager's do.
type route struct {
	method  string
	pattern []string // lower case; {name} takes any one segment
	// name is the SDK's name for the operation, which the ledger counts by.
	name    string
	class   class
	handle  handler
	isOpen  bool // needs no bearer token
	isAdmin bool // not Azure: neither counted, throttled nor faulted
	// isMetadata is of the metadata service of a VM, which has faults of its own.
	isMetadata bool
}

func match(pattern, segments []string) (map[string]string, bool) {
	if len(pattern) != len(segments) {
		return nil, false
	}
	for i, p := range pattern {
		if !isParam(p) && !strings.EqualFold(p, segments[i]) {
			return nil, false
		}
	}
	params := map[string]string{}
	for i, p := range pattern {
		if isParam(p) {
			params[p[1:len(p)-1]] = segments[i]
		}
	}
	return params, true
}

func isParam(segment string) bool { return strings.HasPrefix(segment, "{") }

// Prefixes of the paths below.
const (
	inSubscription = "subscriptions/{subscription}"
	inGroup        = inSubscription + "/resourcegroups/{group}"
	inLocation     = inSubscription + "/providers/microsoft.compute/locations/{location}"
	computeIn      = inGroup + "/providers/microsoft.compute/"
	networkIn      = inGroup + "/providers/microsoft.network/"
)

// azure is a route of Resource Manager, open one that asks for no token.
func azure(method, pattern, name string, c class, handle handler) route {
	return route{method: method, pattern: strings.Split(pattern, "/"), name: name, class: c, handle: handle}
}

func open(method, pattern, name string, handle handler) route {
	r := azure(method, pattern, name, unlimited, handle)
	r.isOpen = true
	return r
}

func admin(method, pattern string, handle handler) route {
	r := open(method, "_emulator/"+pattern, "", handle)
	r.isAdmin = true
	return r
}

// metadata is a route of a VM's metadata service.
func metadata(method, pattern string, handle handler) route {
	r := admin(method, "vms/{vm}/imds/metadata/"+pattern, handle)
	r.isMetadata = true
	return r
}
