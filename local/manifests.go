// SPDX-License-Identifier: Apache-2.0

package local

import _ "embed"

// DefaultNodeClass is the AKSNodeClass every Environment starts with, named "default".
//
//go:embed nodeclass.yaml
var DefaultNodeClass string
