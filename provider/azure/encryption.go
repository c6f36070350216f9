// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/provider/azure/internal/armerr"
)

// A DiskEncryptionSetError reports that disks cannot be encrypted as configured until the user
// changes that.
type DiskEncryptionSetError struct{ Reason, Detail string }

func (e *DiskEncryptionSetError) Error() string { return e.Reason + ": " + e.Detail }

// Reasons of a DiskEncryptionSetError.
const (
	DiskEncryptionSetDenied   = "DiskEncryptionSetRBACMissing"
	DiskEncryptionSetNotFound = "DiskEncryptionSetNotFound"
)

type encryptionSetID struct{ subscription, group, name string }

var encryptionSetForm = regexp.MustCompile(`(?i)^/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/Microsoft\.Compute/diskEncryptionSets/([^/]+)$`)

func parseEncryptionSetID(id string) (encryptionSetID, error) {
	m := encryptionSetForm.FindStringSubmatch(id)
	if m == nil {
		return encryptionSetID{}, fmt.Errorf("%q is not /subscriptions/…/resourceGroups/…/providers/Microsoft.Compute/diskEncryptionSets/…", id)
	}
	return encryptionSetID{m[1], m[2], m[3]}, nil
}

// encryptionTTL is how long a successful check is cached: every node class checks.
const encryptionTTL = time.Hour

// diskEncryption checks the disk encryption set for OS disks.
type diskEncryption struct {
	setID string // empty for none
	sets  *armcompute.DiskEncryptionSetsClient
	now   func() time.Time
	// usableAt is when the set was last found usable.
	usableAt atomic.Pointer[time.Time]
}

// check reports whether karve may use the disk encryption set, with a *DiskEncryptionSetError when
// it may not. Without a set there is nothing to check.
func (d *diskEncryption) check(ctx context.Context) error {
	if d.setID == "" {
		return nil
	}
	if last := d.usableAt.Load(); last != nil && d.now().Sub(*last) < encryptionTTL {
		return nil
	}
	id, err := parseEncryptionSetID(d.setID)
	if err != nil {
		return err // New has checked it
	}
	now := d.now()
	_, err = d.sets.Get(ctx, id.group, id.name, nil)
	if err == nil {
		d.usableAt.Store(&now)
		return nil
	}
	switch armerr.Classify(err).Kind {
	case armerr.Denied:
		return &DiskEncryptionSetError{DiskEncryptionSetDenied, fmt.Sprintf("karve may not read disk encryption set %s: give its identity the role Reader on it", d.setID)}
	case armerr.NotFound:
		return &DiskEncryptionSetError{DiskEncryptionSetNotFound, fmt.Sprintf("disk encryption set %s does not exist: correct node-osdisk-diskencryptionset-id or create it", d.setID)}
	}
	return armerr.Wrap(err, "reading disk encryption set %s", id.name)
}
