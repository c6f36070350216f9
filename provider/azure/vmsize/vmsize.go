// SPDX-License-Identifier: Apache-2.0

// Package vmsize parses the names of Azure VM sizes.
//
// Azure publishes the parts of a name, not a grammar: tier, family letters, a number of vCPUs
// (with a second number when cores are constrained), lower-case feature letters, then parts
// separated by underscores (accelerator, memory variant, version). Standard_E4-2ads_v5 is family
// E, 4 vCPUs of which 2 are on, features "ads", version 5. The values of the labels
// karpenter.azure.com/sku-family, sku-series, sku-version, sku-gpu-name and sku-gpu-manufacturer
// come from this package.
//
// The package knows names only. The Resource SKUs API reports how many vCPUs and how much memory
// a size really has: DS11_v2 has two vCPUs, not eleven. A name with an unknown part is an error,
// never a guess. The zero Size names nothing.
package vmsize

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a parsed VM size name.
type Size struct {
	// Name is the name as given.
	Name string
	// Tier is "Standard" or "Basic", or empty when the name came without it.
	Tier string
	// Family is the first letter: "D", "E", "N". It is the sku-family label.
	Family string
	// Subfamily holds the other capitals before the number: "C" in NC24ads_A100_v4,
	// "S" in DS2_v2, "CC" in NCC40ads_H100_v5.
	Subfamily string
	// VCPUs is the number in the name: the vCPUs in all but the oldest series, where it is only a
	// rank.
	VCPUs int
	// ConstrainedVCPUs is how many vCPUs a constrained-core size leaves on: 2 in
	// E4-2s_v5. Zero when the name does not constrain them.
	ConstrainedVCPUs int
	// Features holds the additive feature letters in the order given: "ads".
	Features string
	// Accelerator is the accelerator in the name ("A100"), or empty. GPU returns it for other
	// names too.
	Accelerator string
	// Variant is the number that distinguishes the memory variants of an M size: "8" in
	// M416ms_8_v2.
	Variant string
	// ConfidentialChild is set by the part "cc": the VM can host confidential child VMs.
	ConfidentialChild bool
	// Version has no "v" and is "1" when the name has none. It is the value of the sku-version
	// label, and may have two digits.
	Version string
	// Series is family, features and version as in the name: Ds_v5, NCads_v4, and B for a name
	// without features or version. The sku-series label has it without the underscore. A version
	// that the name leaves out is left out here too.
	Series string
	// Promo marks the promotional variants of old sizes.
	Promo bool
}

// Constrained reports whether the size runs with some of its cores turned off.
func (s Size) Constrained() bool { return s.ConstrainedVCPUs > 0 }

// HasFeature reports whether the name contains the additive feature letter, such as 's' for
// premium storage or 'p' for an Arm processor.
func (s Size) HasFeature(letter byte) bool { return strings.IndexByte(s.Features, letter) >= 0 }

// Parse parses a size name. It accepts names with and without their tier (Standard_D4s_v5,
// D4s_v5). Case matters, as it distinguishes family from features.
func Parse(name string) (Size, error) {
	s := Size{Name: name}
	parts := strings.Split(name, "_")
	if parts[0] == "Standard" || parts[0] == "Basic" {
		s.Tier, parts = parts[0], parts[1:]
	}
	if len(parts) == 0 {
		return Size{}, fmt.Errorf("VM size %q: nothing follows the tier", name)
	}
	if err := s.parseStem(parts[0]); err != nil {
		return Size{}, fmt.Errorf("VM size %q: %w", name, err)
	}
	for _, part := range parts[1:] {
		if err := s.parsePart(part); err != nil {
			return Size{}, fmt.Errorf("VM size %q: %w", name, err)
		}
	}
	s.finish()
	return s, nil
}

// parseStem parses the part up to the first underscore: E4-2ads.
func (s *Size) parseStem(stem string) error {
	letters, rest := cut(stem, isUpper)
	if letters == "" {
		return fmt.Errorf("%q does not start with the capital letters of a family", stem)
	}
	s.Family, s.Subfamily = letters[:1], letters[1:]

	var err error
	if s.VCPUs, rest, err = cutNumber(rest); err != nil {
		return fmt.Errorf("the vCPU count after family %s: %w", letters, err)
	}
	if tail, ok := strings.CutPrefix(rest, "-"); ok {
		if s.ConstrainedVCPUs, rest, err = cutNumber(tail); err != nil {
			return fmt.Errorf("the constrained vCPU count: %w", err)
		}
		// More than s.VCPUs is no error: GS4-8 leaves 8 of 16 on, as 4 is a rank.
		if s.ConstrainedVCPUs < 1 {
			return fmt.Errorf("a size cannot be constrained to no vCPUs")
		}
	}
	if s.Features, rest = cut(rest, isLower); rest != "" {
		return fmt.Errorf("%q is neither a feature letter nor set off by an underscore", rest)
	}
	return nil
}

// parsePart parses one part between underscores. Version and Promo are last in a name, so a part
// after them is an error.
func (s *Size) parsePart(part string) error {
	version, isVersion := versionOf(part)
	switch {
	case s.Promo:
		return fmt.Errorf("%q follows Promo", part)
	case part == "Promo":
		s.Promo = true
	case s.Version != "":
		return fmt.Errorf("%q follows the version", part)
	case isVersion:
		s.Version = version
	case part == "cc":
		s.ConfidentialChild = true
	case part == "xl", part == "NDR":
		// A memory descriptor and the InfiniBand generation: neither has a label.
	case isVariant(part) && s.Variant == "":
		s.Variant = part
	case isAccelerator(part) && s.Accelerator == "":
		s.Accelerator = part
	default:
		return fmt.Errorf("the part %q is not a version, an accelerator or a known descriptor", part)
	}
	return nil
}

// finish sets the fields that depend on the whole name.
func (s *Size) finish() {
	s.Series = s.Family + s.Subfamily + s.Features
	if s.Version == "" {
		s.Version = "1"
		return
	}
	s.Series += "_v" + s.Version
}

// versionOf parses v5, V5 and v10. Old price lists capitalise the letter.
func versionOf(part string) (string, bool) {
	if len(part) < 2 || (part[0] != 'v' && part[0] != 'V') || len(part) > 3 {
		return "", false
	}
	digits, rest := cut(part[1:], isDigit)
	return digits, digits != "" && rest == "" && digits[0] != '0'
}

func isVariant(part string) bool {
	digits, rest := cut(part, isDigit)
	return digits != "" && rest == ""
}

// isAccelerator recognises A100, T4, MI300X, RTXPRO6000BSE: capitals, a number,
// perhaps more capitals.
func isAccelerator(part string) bool {
	letters, rest := cut(part, isUpper)
	digits, rest := cut(rest, isDigit)
	_, rest = cut(rest, isUpper)
	return letters != "" && digits != "" && rest == ""
}

// cutNumber takes a decimal number off the front of s. Five digits and more are an error: no VM
// has so many vCPUs, and the number would become a label value.
func cutNumber(s string) (int, string, error) {
	digits, rest := cut(s, isDigit)
	if digits == "" {
		return 0, s, fmt.Errorf("want a number, have %q", s)
	}
	if len(digits) > 4 {
		return 0, s, fmt.Errorf("%s is more vCPUs than any VM has", digits)
	}
	n, err := strconv.Atoi(digits)
	return n, rest, err
}

// cut splits s after its longest prefix of bytes for which in returns true.
func cut(s string, in func(byte) bool) (prefix, rest string) {
	i := 0
	for i < len(s) && in(s[i]) {
		i++
	}
	return s[:i], s[i:]
}

func isUpper(b byte) bool { return 'A' <= b && b <= 'Z' }
func isLower(b byte) bool { return 'a' <= b && b <= 'z' }
func isDigit(b byte) bool { return '0' <= b && b <= '9' }
