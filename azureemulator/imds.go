// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"net/http"
	"strings"
)

// MetadataOf is the way from the VM of that name to its metadata service: a client
// with this transport reaches it under any host. As on Azure it describes that VM
// only, and does not answer while the VM does not run.
func (s *Server) MetadataOf(vm string) http.RoundTripper { return toMetadata{s, vm} }

// RoundTrip asks the metadata service.
func (t toMetadata) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Path = metadataOf(t.vm) + r.URL.Path
	return inProcess{t.server}.RoundTrip(r)
}

// MetadataURL is the same service's address for a process that reaches the listener.
func (s *Server) MetadataURL(vm string) string { return s.sub.url + metadataOf(vm) }

func metadataOf(vm string) string { return "/_emulator/vms/" + vm + "/imds" }

// metadataService is what VMs ask about themselves.
type metadataService struct {
	vms      *virtualMachines
	events   *maintenance
	guests   *guests
	identity *identity
	sub      *subscription
	clock    *clock
}

func (ms *metadataService) routes() []route {
	return []route{
		metadata("GET", "instance", ms.instance),
		metadata("GET", "instance/compute", ms.compute),
		metadata("GET", "scheduledevents", ms.scheduledEvents),
		metadata("POST", "scheduledevents", ms.start),
		metadata("GET", "identity/oauth2/token", ms.token),
	}
}

// instanceVersions are versions of the metadata service's instance document, and
// eventVersions of its scheduled events, newest first.
func instanceVersions() []string {
	return []string{"2023-07-01", "2021-12-13", "2021-02-01", "2020-09-01"}
}
func eventVersions() []string { return []string{"2020-07-01", "2019-08-01", "2019-04-01"} }

// fromMachine finds the VM that asks, or answers what was wrong with its request.
// Callers hold the lock.
func (ms *metadataService) fromMachine(r *request, versions []string) (*vm, *reply) {
	complain := func(status int, words string, more map[string]any) *reply {
		body := map[string]any{"error": words}
		for k, v := range more {
			body[k] = v
		}
		rep, err := answer(status, nil, body)
		if err != nil {
			return &reply{status: http.StatusInternalServerError}
		}
		return &rep
	}
	v := ms.vms.named(r.params["vm"])
	switch {
	case v == nil || v.power != running:
		return nil, complain(http.StatusGone, "No such machine is running: its metadata service does not answer.", nil)
	case r.http.Header.Get("X-Forwarded-For") != "":
		return nil, complain(http.StatusBadRequest, "Bad request. Request has been forwarded by a proxy.", nil)
	case !strings.EqualFold(r.http.Header.Get("Metadata"), "true"):
		return nil, complain(http.StatusBadRequest, "Bad request. Required metadata header not specified", nil)
	case r.query.Get("api-version") == "":
		return nil, complain(http.StatusBadRequest, "Bad request. api-version was not specified in the request.", map[string]any{"newest-versions": versions})
	}
	return v, nil
}

func (ms *metadataService) instance(r *request) (reply, error) {
	ms.clock.Lock()
	defer ms.clock.Unlock()
	v, complaint := ms.fromMachine(r, instanceVersions())
	if complaint != nil {
		return *complaint, nil
	}
	return ok(map[string]any{"compute": ms.computeDocument(v)})
}

func (ms *metadataService) compute(r *request) (reply, error) {
	ms.clock.Lock()
	defer ms.clock.Unlock()
	v, complaint := ms.fromMachine(r, instanceVersions())
	if complaint != nil {
		return *complaint, nil
	}
	return ok(ms.computeDocument(v))
}

func (ms *metadataService) computeDocument(v *vm) any {
	m := ms.guests.machine(v)
	tags := []any{}
	for name, value := range m.Tags {
		tags = append(tags, map[string]string{"name": name, "value": value})
	}
	return map[string]any{
		"azEnvironment": "AzurePublicCloud", "location": m.Location, "name": m.Name, "osType": "Linux", "resourceGroupName": m.ResourceGroup,
		"resourceId": m.ID, "subscriptionId": m.SubscriptionID, "tagsList": tags, "vmId": v.vmID, "vmScaleSetName": "", "vmSize": m.Size.Name,
		"zone": m.Zone, "priority": m.Priority, "evictionPolicy": v.spec.Properties.EvictionPolicy,
	}
}

func (ms *metadataService) scheduledEvents(r *request) (reply, error) {
	ms.clock.Lock()
	defer ms.clock.Unlock()
	v, complaint := ms.fromMachine(r, eventVersions())
	if complaint != nil {
		return *complaint, nil
	}
	return ok(v.scheduledEvents())
}

// start starts the events that the VM acknowledges, at once.
func (ms *metadataService) start(r *request) (reply, error) {
	var ack struct {
		StartRequests []struct {
			EventID string `json:"EventId"`
		} `json:"StartRequests"`
	}
	if err := r.decode(&ack); err != nil {
		return reply{}, err
	}
	ms.clock.Lock()
	defer ms.clock.Unlock()
	v, complaint := ms.fromMachine(r, eventVersions())
	if complaint != nil {
		return *complaint, nil
	}
	for _, start := range ack.StartRequests {
		for _, e := range v.events {
			if strings.EqualFold(e.id, start.EventID) {
				ms.clock.afterScaled(0, func() { ms.events.begins(v, e) })
			}
		}
	}
	return reply{status: http.StatusOK}, nil
}

type toMetadata struct {
	server http.Handler
	vm     string
}
