package azureemulator

import (
	"net/http"
	"strings"
)

const encryptionSetKind = "Microsoft.Compute/diskEncryptionSets"

// AddDiskEncryptionSet makes a set in the node resource group and returns its ID.
func (s *Server) AddDiskEncryptionSet(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	group := s.options.NodeResourceGroup
	id := s.resourceID(group, "Microsoft.Compute", "diskEncryptionSets", name)
	set := s.newCommon(id, name, group)
	s.encryptionSets[key(group, name)] = &set
	return id
}

func (s *Server) getEncryptionSet(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set, err := find(s, r, s.encryptionSets, encryptionSetKind, "set")
	if err != nil {
		return reply{}, err
	}
	return ok(set.view(encryptionSetKind, map[string]any{"provisioningState": succeeded, "encryptionType": "EncryptionAtRestWithCustomerKey"}))
}

// checkEncryption refuses a set that does not exist.
func (s *Server) checkEncryption(v *vm) error {
	id := v.spec.Properties.StorageProfile.OSDisk.ManagedDisk.DiskEncryptionSet.ID
	if id == "" {
		return nil
	}
	for _, set := range s.encryptionSets {
		if strings.EqualFold(set.id, id) {
			return nil
		}
	}
	return refuse(http.StatusNotFound, "DiskEncryptionSetNotFound", "The disk encryption set '%s' was not found.", id)
}
