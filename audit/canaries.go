// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// canaries judges that secrets are written nowhere (S23): it looks for strings that are known to be
// secret in every object but Secrets, and in texts. It does not repeat them.
type canaries struct {
	bench
	found map[string]bool // by where
}

func (j *canaries) object(at time.Time, o client.Object) {
	if _, secret := o.(*corev1.Secret); secret || len(j.settings.Canaries) == 0 {
		return
	}
	text, err := json.Marshal(o)
	if err != nil {
		return // what cannot be written as JSON was never read from the API server
	}
	kind := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1."))
	j.search(at, kind+"/"+o.GetName(), string(text))
}

func (j *canaries) search(at time.Time, where, text string) {
	for i, canary := range j.settings.Canaries {
		key := fmt.Sprint(i, where)
		if canary != "" && !j.found[key] && strings.Contains(text, canary) {
			j.found[key] = true
			j.violation("S23", where, at, fmt.Sprintf("it contains the secret that is canary number %d", i+1))
		}
	}
}
