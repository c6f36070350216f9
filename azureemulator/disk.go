package azureemulator

import (
	"encoding/json"
	"net/http"
	"time"
)

const diskKind = "Microsoft.Compute/disks"

// disk is an OS disk. Ephemeral ones are not resources and are not kept.
type disk struct {
	common
	sizeGB int
	sku    string
	zone   string
	vm     string // id of the machine it is attached to, or empty
	state  string
}

// computePace is how often Compute asks to be polled.
const computePace = 10 * time.Second

func (d *disk) view() any {
	attachment := "Unattached"
	if d.vm != "" {
		attachment = "Attached"
	}
	view := d.common.view(diskKind, map[string]any{
		"provisioningState": d.state, "diskState": attachment, "diskSizeGB": d.sizeGB, "osType": "Linux",
		"timeCreated": stamp(d.created), "creationData": map[string]any{"createOption": "FromImage"},
	})
	view["sku"] = map[string]string{"name": d.sku}
	if d.vm != "" {
		view["managedBy"] = d.vm
	}
	if d.zone != "" {
		view["zones"] = []string{d.zone}
	}
	return view
}

// row is the disk in a list.
func (d *disk) row() (json.RawMessage, error) {
	return d.listed.of(looks{etag: d.etag, state: d.state, vm: d.vm}, d.view)
}

func (s *Server) listDisks(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(s, r, s.disks, (*disk).row)
}

func (s *Server) getDisk(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := find(s, r, s.disks, diskKind, "disk")
	if err != nil {
		return reply{}, err
	}
	return ok(d.view())
}

func (s *Server) deleteDisk(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.groupOf(r)
	if err != nil {
		return reply{}, err
	}
	d := s.disks[key(g.name, r.params["disk"])]
	if d == nil {
		return reply{status: http.StatusNoContent}, nil
	}
	if d.vm != "" {
		return reply{}, conflict("OperationNotAllowed", "Disk %s is attached to VM %s.", d.name, d.vm)
	}
	d.state = "Deleting"
	op := s.begin("Microsoft.Compute", computePace)
	s.later(s.options.Latency.Network, func() {
		s.removeDisk(d)
		s.operations.finish(op, nil)
	})
	return s.accepted(op)
}

func (s *Server) removeDisk(d *disk) {
	if s.disks[key(d.group, d.name)] == d {
		delete(s.disks, key(d.group, d.name))
	}
}
