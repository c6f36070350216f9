// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// A Contract is a form in which an image reads the settings of its node.
type Contract string

// Auto stands for the contract that suits the image.
const (
	Auto        Contract = "auto"
	Environment Contract = "environment"
	Structured  Contract = "structured"
)

// structuredSince is the build date (YYYYMMDD) of the first images that Auto gives the structured
// contract. AgentBaker keeps the contract compatible since 2025-11-08
// (nodeconfigutils/compatibility_test.go), images start the node controller from the boot hook
// since 2026-03-23, and all of AgentBaker's end-to-end tests use it since 2026-06-11. Older
// images that are still available keep the environment contract, which they were built for.
const structuredSince = 20260701

// ParseContract parses the name of a contract.
func ParseContract(name string) (Contract, error) {
	switch c := Contract(name); c {
	case Auto, Environment, Structured:
		return c, nil
	}
	return "", fmt.Errorf("%q is none of %s, %s, %s", name, Auto, Structured, Environment)
}

// For returns the contract for an image of that version: c, unless c is Auto (or empty). An image
// whose age does not follow from its version gets the environment contract, which images of every
// age read.
func (c Contract) For(imageVersion string) Contract {
	if c != Auto && c != "" {
		return c
	}
	if built, ok := buildDate(imageVersion); ok && built >= structuredSince {
		return Structured
	}
	return Environment
}

// imageForm matches AKS's image versions: the month, the day and a patch.
var imageForm = regexp.MustCompile(`^(20[0-9]{4})\.([0-9]{2})\.[0-9]+$`)

// buildDate returns when an image was built, as YYYYMMDD.
func buildDate(imageVersion string) (int, bool) {
	m := imageForm.FindStringSubmatch(imageVersion)
	if m == nil {
		return 0, false
	}
	date, err := strconv.Atoi(m[1] + m[2])
	return date, err == nil
}

// built returns the build date of the node's image; an image of unknown age counts as new.
func (n *NodeConfig) built() int {
	if date, ok := buildDate(n.ImageVersion); ok {
		return date
	}
	return math.MaxInt
}
