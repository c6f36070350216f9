package azure

import (
	"fmt"

	"github.com/karve-dev/karve/api/v1beta1"
)

// Unhonoured lists, in words, the fields of a class that are set and have no
// effect on its nodes yet. Silence about them would be a promise.
func Unhonoured(class *v1beta1.AKSNodeClass) []string {
	var fields []string
	say := func(set bool, format string, args ...any) {
		if set {
			fields = append(fields, fmt.Sprintf(format, args...))
		}
	}
	spec := &class.Spec
	say(spec.FIPS(), "fipsMode: FIPS images cannot be read yet")
	say(spec.LocalDNS != nil && spec.LocalDNS.Mode != v1beta1.LocalDNSModeDisabled, "localDNS: nodes run no DNS cache yet")
	say(spec.StreamsArtifacts(), "artifactStreaming: images are pulled whole")
	if os := spec.LinuxOSConfig; os != nil {
		say(os.Sysctls != nil, "linuxOSConfig.sysctls: nodes keep the kernel settings of their image")
		say(os.TransparentHugePageEnabled != nil, "linuxOSConfig.transparentHugePageEnabled: nodes keep the setting of their image")
		say(os.TransparentHugePageDefrag != nil, "linuxOSConfig.transparentHugePageDefrag: nodes keep the setting of their image")
		say(os.SwapFileSize != nil, "linuxOSConfig.swapFileSize: nodes have no swap")
	}
	return fields
}
