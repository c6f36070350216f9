// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// A GPUKind is one of the drivers that AKS builds, by the GPUs that need it.
type GPUKind string

// CUDA is for GPUs that are assigned to a VM as a whole; Grid and GridV20 are for virtual
// ones.
const (
	CUDA    GPUKind = ""
	Grid    GPUKind = "grid"
	GridV20 GPUKind = "grid-v20"
)

// A driver is a GPU driver that an image installs.
type driver struct {
	since                int // build date of the first image that has it, YYYYMMDD
	kind, version, build string
}

// gpuData holds facts about drivers and sizes; see the head of the file.
//
//go:embed gpu.txt
var gpuData string

// gpuTable is gpuData, parsed.
type gpuTable struct {
	drivers []driver // in order of since
	fabric  map[string]bool
}

// gpus parses the table once. It panics on an error, because the table is part of the program.
var gpus = sync.OnceValue(func() gpuTable {
	t, err := readGPUs(gpuData)
	if err != nil {
		panic(err)
	}
	return t
})

func readGPUs(text string) (gpuTable, error) {
	t := gpuTable{fabric: map[string]bool{}}
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "driver" && len(words) == 5:
			since, err := strconv.Atoi(words[1])
			if err != nil || len(t.drivers) > 0 && since < t.drivers[len(t.drivers)-1].since {
				return t, fmt.Errorf("gpu.txt:%d: %q is no date, or not in order", i+1, words[1])
			}
			t.drivers = append(t.drivers, driver{since, words[2], words[3], words[4]})
		case words[0] == "fabric" && len(words) == 2:
			t.fabric[words[1]] = true
		default:
			return t, fmt.Errorf("gpu.txt:%d: cannot be read: %q", i+1, line)
		}
	}
	return t, nil
}

// driver returns the newest driver of the GPU's kind in the node's image. The image contains it:
// another version would be fetched at boot, or not exist at all.
func (n *NodeConfig) driver() (driver, error) {
	if !n.GPU.Install {
		return driver{}, nil
	}
	kinds := []string{string(n.GPU.Kind)}
	if n.GPU.Kind == CUDA {
		kinds = []string{"cuda-lts", "cuda"} // images have one or both; the first is preferred
	}
	for _, kind := range kinds {
		var best driver
		for _, d := range gpus().drivers {
			if d.kind == kind && (d.since <= n.built() || d.since == gpus().drivers[0].since) {
				best = d
			}
		}
		if best.kind != "" {
			return best, nil
		}
	}
	return driver{}, &DriverError{Image: n.ImageVersion, Size: n.Size, Driver: n.GPU.Kind}
}

// A DriverError reports that a size needs a GPU driver which its image does not have.
type DriverError struct {
	Image, Size string
	Driver      GPUKind
}

func (e *DriverError) Error() string {
	return fmt.Sprintf("image %s has no GPU driver %s, which %s needs: use a newer image, or another size", e.Image, e.Driver, e.Size)
}

// fabricManager reports whether the GPUs of the size are connected by a switch of their own.
func (n *NodeConfig) fabricManager() bool { return gpus().fabric[strings.ToLower(n.Size)] }
