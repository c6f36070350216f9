// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"encoding/json"
	"fmt"
	"time"
)

// NillableDuration is a length of time written as whole hours, minutes and
// seconds. It is written back exactly as it was read, so that a tool comparing
// manifests never sees "1h" turn into "1h0m0s". The zero value means not set
// and is written as null. The name is part of AKSNodeClass.Hash.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
// +kubebuilder:validation:MaxLength=30
// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="a length of time may be at most 292 years"
type NillableDuration struct {
	// Duration is nil when not set.
	Duration *time.Duration
	// Raw is the text it was read from, empty when made in Go.
	Raw string `hash:"ignore"`
}

// ParseDuration reads a NillableDuration from its text, for example 1h30m.
func ParseDuration(text string) (NillableDuration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return NillableDuration{}, fmt.Errorf("reading duration %q: %w", text, err)
	}
	return NillableDuration{Duration: &d, Raw: text}, nil
}

// UnmarshalJSON reads a string such as "1h30m", or null for not set.
func (d *NillableDuration) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("reading duration: %w", err)
	}
	if text == nil {
		*d = NillableDuration{}
		return nil
	}
	parsed, err := ParseDuration(*text)
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (d NillableDuration) MarshalJSON() ([]byte, error) {
	switch {
	case d.Raw != "":
		return json.Marshal(d.Raw)
	case d.Duration != nil:
		return json.Marshal(d.Duration.String())
	}
	return []byte("null"), nil
}
