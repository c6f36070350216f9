// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Endpoint is the address of the metadata service on an Azure VM. It is the same for
// all, and answers only requests from the VM itself.
const Endpoint = "http://169.254.169.254"

// Versions of the metadata service that are requested. Scheduled Events have a
// schedule of versions of their own; 2020-07-01 is the one that has
// DurationInSeconds.
const (
	instanceVersion = "2021-02-01"
	eventsVersion   = "2020-07-01"
)

// largest is how much of an answer is read: a document of many events is some KiB.
const largest = 1 << 20

// Metadata is Azure's metadata service as one VM sees it.
type Metadata struct {
	// Endpoint is the service's address without a path.
	Endpoint string
	// HTTP carries requests. The service answers no proxy; see Direct.
	HTTP *http.Client
}

// Direct returns a client for the metadata service: it uses no proxy, and gives up after
// some seconds. The service may take two minutes to answer the very first request; the
// request is repeated meanwhile, since the wait does not depend on a connection.
func Direct() *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConns: 1, IdleConnTimeout: 30 * time.Second}}
}

// Document lists the events that are scheduled for a VM and for VMs of its availability set or
// scale set.
type Document struct {
	// Incarnation changes whenever anything else does.
	Incarnation int64 `json:"DocumentIncarnation"`
	Events      []Event
}

// Event is one thing that Azure will do.
type Event struct {
	ID        string   `json:"EventId"`
	Kind      string   `json:"EventType"`
	Resources []string // names of VMs
	Status    string   `json:"EventStatus"` // Scheduled or Started
	// NotBefore is the earliest time in the form of HTTP; empty once the event has started.
	NotBefore   string
	Description string
}

// started reports whether the event is in progress.
func (e Event) started() bool { return strings.EqualFold(e.Status, "Started") }

// at is the earliest time of the event; zero when it has none.
func (e Event) at() time.Time {
	at, err := http.ParseTime(e.NotBefore)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// concerns reports whether the event is about the VM of that name.
func (e Event) concerns(vm string) bool {
	for _, name := range e.Resources {
		if strings.EqualFold(name, vm) {
			return true
		}
	}
	return false
}

// Events reads the scheduled events.
func (m Metadata) Events(ctx context.Context) (Document, error) {
	var d Document
	err := m.get(ctx, "/metadata/scheduledevents?api-version="+eventsVersion, &d)
	return d, err
}

// VM reads the name that events use for this VM.
func (m Metadata) VM(ctx context.Context) (string, error) {
	var compute struct{ Name string }
	if err := m.get(ctx, "/metadata/instance/compute?api-version="+instanceVersion, &compute); err != nil {
		return "", err
	}
	if compute.Name == "" {
		return "", fmt.Errorf("asking %s for the VM's name: the answer has none", m.Endpoint)
	}
	return compute.Name, nil
}

func (m Metadata) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(m.Endpoint, "/")+path, nil)
	if err != nil {
		return fmt.Errorf("asking the metadata service: %w", err)
	}
	req.Header.Set("Metadata", "true")
	answer, err := m.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("asking the metadata service: %w", err)
	}
	defer answer.Body.Close() // it was read, or will not be
	body, err := io.ReadAll(io.LimitReader(answer.Body, largest))
	if err != nil {
		return fmt.Errorf("reading the metadata service's answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the metadata service answers %s with status %d", path, answer.StatusCode)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("understanding the metadata service's answer to %s: %w", path, err)
	}
	return nil
}
