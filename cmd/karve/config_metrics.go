// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/karve-dev/karve/controller/manager"
)

// MetricsConfig is how metrics are served, and to whom. Its flags are named as in other projects
// that are made with controller-runtime.
type MetricsConfig struct {
	MetricsSecure                                    bool
	MetricsCertPath, MetricsCertName, MetricsCertKey string
}

func (c *MetricsConfig) bind(flags *pflag.FlagSet) {
	flags.BoolVar(&c.MetricsSecure, "metrics-secure", false, "serve the metrics port over HTTPS, and only to clients whose token the API server accepts and whom it lets get the path (karve rbac --metrics-secure prints the roles)")
	flags.StringVar(&c.MetricsCertPath, "metrics-cert-path", "", "directory of the certificate for --metrics-secure, which is read again when it changes; empty for a self-signed one")
	flags.StringVar(&c.MetricsCertName, "metrics-cert-name", "tls.crt", "file of the certificate in --metrics-cert-path")
	flags.StringVar(&c.MetricsCertKey, "metrics-cert-key", "tls.key", "file of the certificate's key in --metrics-cert-path")
}

func (c MetricsConfig) check(f *faults) {
	f.check(c.MetricsCertPath == "" || c.MetricsSecure, "metrics-cert-path", "has no effect without --metrics-secure")
	if c.MetricsCertPath == "" {
		return
	}
	for flag, name := range map[string]string{"metrics-cert-name": c.MetricsCertName, "metrics-cert-key": c.MetricsCertKey} {
		_, err := os.Stat(filepath.Join(c.MetricsCertPath, name))
		f.check(name != "" && err == nil, flag, "names no file that can be read in --metrics-cert-path: %v", err)
	}
}

func (c MetricsConfig) options() manager.MetricsServing {
	return manager.MetricsServing{Secure: c.MetricsSecure, CertDir: c.MetricsCertPath, CertName: c.MetricsCertName, KeyName: c.MetricsCertKey}
}
