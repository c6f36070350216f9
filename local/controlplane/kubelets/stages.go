// SPDX-License-Identifier: Apache-2.0

package kubelets

import (
	"embed"
	"fmt"
	"io/fs"

	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/yaml"
)

// stageFiles say how simulated nodes and pods live. Each file explains itself.
//
//go:embed stages/*.yaml
var stageFiles embed.FS

type stagesByKind = map[internalversion.StageResourceRef][]*internalversion.Stage

// loadStages reads every stage. A file that does not parse is a programming error, caught by
// the tests, so it stops the program.
func loadStages() (stagesByKind, error) {
	paths, err := fs.Glob(stageFiles, "stages/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing stages: %w", err)
	}
	stages := stagesByKind{}
	for _, path := range paths {
		stage, err := loadStage(path)
		if err != nil {
			return nil, fmt.Errorf("stage %s: %w", path, err)
		}
		ref := stage.Spec.ResourceRef
		stages[ref] = append(stages[ref], stage)
	}
	return stages, nil
}

func loadStage(path string) (*internalversion.Stage, error) {
	text, err := stageFiles.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var stage v1alpha1.Stage
	if err := yaml.UnmarshalStrict(text, &stage); err != nil {
		return nil, err
	}
	return internalversion.ConvertToInternalStage(&stage)
}
