// SPDX-License-Identifier: Apache-2.0

package scenario

import _ "embed"

// The manifests that the demo deploys. The NodePools are the ones the README shows.
var (
	//go:embed manifests/general.yaml
	generalPool []byte
	//go:embed manifests/gpu.yaml
	gpuPool []byte
	//go:embed manifests/web.yaml
	web []byte
	//go:embed manifests/batch.yaml
	batch []byte
	//go:embed manifests/train.yaml
	train []byte
	//go:embed manifests/db.yaml
	db []byte
	//go:embed manifests/edge.yaml
	edge []byte
)
