// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package usage

import (
	"bytes"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// Handler answers /metrics with what the collectors say at that moment.
func Handler(collectors ...prometheus.Collector) http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		families, err := registry.Gather()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		format := expfmt.Negotiate(r.Header)
		var text bytes.Buffer
		encoder := expfmt.NewEncoder(&text, format)
		for _, family := range families {
			if err := encoder.Encode(family); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		w.Header().Set("Content-Type", string(format))
		_, _ = w.Write(text.Bytes()) // who asked may be gone
	})
}
