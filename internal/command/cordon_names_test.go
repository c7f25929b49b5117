// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"testing"

	"gpuslice/internal/cordon"
	"gpuslice/internal/report"
)

// The cordon knows nothing of the agent and still reads what it writes.
func TestCordonReadsWhatIsReported(t *testing.T) {
	if string(cordon.HealthCondition) != report.HealthConditionType || cordon.CountAnnotation != report.UnhealthyAnnotation {
		t.Errorf("the cordon reads %s and %s, the agent writes %s and %s",
			cordon.HealthCondition, cordon.CountAnnotation, report.HealthConditionType, report.UnhealthyAnnotation)
	}
}
