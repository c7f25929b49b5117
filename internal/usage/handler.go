// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package usage

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler answers /metrics with what the collectors say at that moment.
func Handler(collectors ...prometheus.Collector) http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
