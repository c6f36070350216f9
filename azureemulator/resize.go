package azureemulator

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

// resizing is how long a machine stands still while it moves to hardware of its new size.
const resizing = time.Minute

// Resize gives a machine, found by its name in any resource group, another size, as somebody
// does in the portal: the next larger of its family or, where there is none, one that is much
// like it. It restarts.
func (s *Server) Resize(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vmNamed(name)
	if v == nil || v.state != succeeded {
		return fmt.Errorf("resizing %s: there is no such virtual machine, or something else is done to it", name)
	}
	size, found := s.sizeBeside(v)
	if !found {
		return fmt.Errorf("resizing %s: no other size is sold there", name)
	}
	s.quota.giveBack(claims(v.size, v.spec.isSpot()))
	if err := s.checkQuota(claims(size, v.spec.isSpot())); err != nil {
		s.quota.take(claims(v.size, v.spec.isSpot()))
		return fmt.Errorf("resizing %s: %w", name, err)
	}
	s.quota.take(claims(size, v.spec.isSpot()))
	s.log.Info("virtual machine resized", slog.String("vm", v.name), slog.String("from", v.size.Name), slog.String("to", size.Name))
	v.setSize(size)
	v.etag = s.chance.uuid()
	if v.power == running || v.power == starting {
		s.restartAfter(v, resizing, func() {})
	}
	return nil
}

// setSize has the machine be of a size, in its document too.
func (v *vm) setSize(size catalog.Size) {
	v.size = size
	v.spec.Properties.HardwareProfile.VMSize = size.Name
	hardware := map[string]any{"hardwareProfile": map[string]any{"vmSize": size.Name}}
	v.document = merged(v.document, map[string]any{"properties": hardware})
}

// sizeBeside is the size that a machine is given: of its family and larger if there is one.
func (s *Server) sizeBeside(v *vm) (catalog.Size, bool) {
	var all []catalog.Size
	for _, name := range s.sizeNames {
		size := s.sizes[strings.ToLower(name)]
		zones, offered := size.ZonesIn(s.options.Location)
		zone := v.spec.zone()
		if offered && size.Name != v.size.Name && size.Architecture == v.size.Architecture && (zone == "" || slices.Contains(zones, zone)) {
			all = append(all, size)
		}
	}
	if len(all) == 0 {
		return catalog.Size{}, false
	}
	return slices.MinFunc(all, func(a, b catalog.Size) int {
		return cmp.Or(cmp.Compare(distance(v.size, a), distance(v.size, b)), cmp.Compare(a.Name, b.Name))
	}), true
}

// distance grows with cores; another family is farther than any size of the own one, and a
// smaller size than any larger one of its family.
func distance(from, to catalog.Size) int {
	const far = 1 << 16
	d := to.VCPUs - from.VCPUs
	if d <= 0 {
		d = far - d
	}
	if to.Family != from.Family {
		d += 4 * far
	}
	return d
}
