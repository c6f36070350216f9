// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Config is everything "karve controller" can be told. It is filled from flags
// and environment, validated once, and handed on by subject: no other package
// reads the environment (the Azure SDK's own credential variables excepted).
//
// Flags and variables are spelled as Karpenter and its Azure provider spell
// them, so that an existing Deployment works with another image.
type Config struct {
	Core  CoreConfig
	Azure AzureConfig
}

// bind declares every flag with its default.
func (c *Config) bind(flags *pflag.FlagSet) {
	c.Core.bind(flags)
	c.Azure.bind(flags)
	acceptIgnored(flags)
}

// Validate reports every fault at once, each naming the flag and the variable.
func (c Config) Validate() error {
	return errors.Join(c.Core.validate(), c.Azure.validate())
}

// faults gathers what is wrong with a Config.
type faults []error

func (f *faults) add(err error) { *f = append(*f, err) }
func (f faults) joined() error  { return errors.Join(f...) }

func (f *faults) check(ok bool, flag, format string, args ...any) {
	if !ok {
		f.add(fmt.Errorf("%s %s", spelled(flag), fmt.Sprintf(format, args...)))
	}
}

// given reports whether a required setting has a value.
func (f *faults) given(flag, value string) bool {
	f.check(value != "", flag, "is required")
	return value != ""
}

func (f *faults) variable(name, value, meaning string) {
	if value == "" {
		f.add(fmt.Errorf("the environment variable %s is required: %s", name, meaning))
	}
}

// port allows zero, which disables the listener, as controller-runtime's "0" does.
func (f *faults) port(flag string, port int) {
	f.check(port >= 0 && port <= 65535, flag, "must be a port number, or 0 for none, got %d", port)
}

func (f *faults) oneOf(flag, value string, allowed ...string) {
	names := make([]string, len(allowed))
	for i, a := range allowed {
		if names[i] = a; a == "" {
			names[i] = "(empty)"
		}
	}
	f.check(slices.Contains(allowed, value), flag, "must be one of %s, got %q", strings.Join(names, ", "), value)
}
