// SPDX-License-Identifier: Apache-2.0

package kubelets

import (
	"strings"
	"testing"
)

func TestStagesCoverNodesAndPodsOnly(t *testing.T) {
	stages, err := loadStages()
	if err != nil {
		t.Fatal(err)
	}
	for ref, list := range stages {
		if ref.APIGroup != "v1" || ref.Kind != "Node" && ref.Kind != "Pod" {
			t.Errorf("stages for %v: kwok's role allows nodes and pods only", ref)
		}
		for _, stage := range list {
			// A stage without a selector is dropped silently by the engine.
			if stage.Spec.Selector == nil {
				t.Errorf("stage %s has no selector", stage.Name)
			}
			if !strings.HasPrefix(stage.Name, strings.ToLower(ref.Kind)+"-") {
				t.Errorf("stage %s is for %s: its name should say so", stage.Name, ref.Kind)
			}
		}
	}
	if len(stages) != 2 {
		t.Errorf("stages for %d kinds, want nodes and pods", len(stages))
	}
}

// The stages must not write the fields that a node's registrar sets, not even with the same value:
// a patch made from an older reading would undo a change.
func TestNodeStagesWriteConditionsOnly(t *testing.T) {
	stages, err := loadStages()
	if err != nil {
		t.Fatal(err)
	}
	for ref, list := range stages {
		if ref.Kind != "Node" {
			continue
		}
		for _, stage := range list {
			for _, step := range stage.Spec.Steps {
				if step.Delete || step.Patch == nil || step.Patch.Root != "status" {
					t.Errorf("stage %s does more than patch the status", stage.Name)
					continue
				}
				if keys := topKeys(step.Patch.Template); len(keys) != 1 || keys[0] != "conditions" {
					t.Errorf("stage %s writes %v, want conditions only", stage.Name, keys)
				}
			}
		}
	}
}

// topKeys lists the unindented YAML keys of a template.
func topKeys(template string) []string {
	var keys []string
	for line := range strings.Lines(template) {
		if key, _, ok := strings.Cut(line, ":"); ok && !strings.ContainsAny(key[:1], " {-#") {
			keys = append(keys, key)
		}
	}
	return keys
}
