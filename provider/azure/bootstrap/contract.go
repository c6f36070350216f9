// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// A Contract is a form in which an image reads what it must know.
type Contract string

// Auto stands for the contract that suits the image.
const (
	Auto        Contract = "auto"
	Environment Contract = "environment"
	Structured  Contract = "structured"
)

// structuredSince is the build date (YYYYMMDD) of the first images that Auto gives
// the structured contract. Its makers keep it compatible since 2025-11-08
// (nodeconfigutils/compatibility_test.go), images start the node controller from the
// boot hook since 2026-03-23, and all their end-to-end tests go through it since
// 2026-06-11; images that can be had now and are older stay with what they were made for.
const structuredSince = 20260701

// ParseContract reads the name of a contract.
func ParseContract(name string) (Contract, error) {
	switch c := Contract(name); c {
	case Auto, Environment, Structured:
		return c, nil
	}
	return "", fmt.Errorf("%q is none of %s, %s, %s", name, Auto, Structured, Environment)
}

// For is the contract for an image of that version: c, unless c is Auto (or empty).
// An image whose version does not tell its age gets the environment, which images
// of every age read.
func (c Contract) For(imageVersion string) Contract {
	if c != Auto && c != "" {
		return c
	}
	if built, ok := buildDate(imageVersion); ok && built >= structuredSince {
		return Structured
	}
	return Environment
}

// imageForm is how AKS calls its images: the month, the day and a patch.
var imageForm = regexp.MustCompile(`^(20[0-9]{4})\.([0-9]{2})\.[0-9]+$`)

// buildDate is when an image was built, as YYYYMMDD.
func buildDate(imageVersion string) (int, bool) {
	m := imageForm.FindStringSubmatch(imageVersion)
	if m == nil {
		return 0, false
	}
	date, err := strconv.Atoi(m[1] + m[2])
	return date, err == nil
}

// built is the build date of the node's image; one of unknown age counts as new.
func (n *Node) built() int {
	if date, ok := buildDate(n.ImageVersion); ok {
		return date
	}
	return math.MaxInt
}
