// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package crash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// P6, P8: SIGKILL before and after every write to the driver of a change that needs a reset. The next process finishes it, and
// persistence mode is as the admin had it.
func TestKilledWhileAGPUIsReset(t *testing.T) {
	t.Parallel()
	const (
		resets = head + "layouts: {it: {mig: {slots: [3g.20gb@4, 2g.10gb@0]}}}\nnodes: [{gpus: [{layout: it, reset: when-idle}]}]\n"
		cut    = "gpu-0 a100-sxm4-40gb mig=on [2g.10gb@0 3g.20gb@4]"
	)
	machine := filepath.Join(t.TempDir(), "machine.yaml")
	if err := os.WriteFile(machine, []byte("gpus: [{model: a100-sxm4-40gb, persistence: true}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	points := 0
	for _, w := range []write{{"SetPersistenceMode", 1}, {"SetMIGMode", 1}, {"Reset", 1}, {"CreateGI", 1}, {"CreateCI", 2}, {"SetPersistenceMode", 2}} {
		for late, side := range sides {
			points++
			where := fmt.Sprintf("%s %s number %d", side, w.call, w.nth)
			n := newNode(t, "@"+machine)
			n.configure(resets)
			n.dieAt(w, late, where, func() { n.start() })
			n.start()
			n.until("layout, "+where, func() bool { return n.cut() == cut && n.Healthy("nvidia.com/mig-2g.10gb") == 1 })
			n.until("persistence mode, "+where, func() bool { return n.driver.Machine().GPUs()[0].Persistence })
			n.kill()
		}
	}
	t.Logf("%d points", points)
}
