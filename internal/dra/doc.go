// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package dra is the front end for dynamic resource allocation: it publishes the agent's view as ResourceSlices and turns
// allocated ResourceClaims into intents and CDI specs.
//
// Names of driver, devices, attributes, capacities and parameters are those of NVIDIA's DRA driver, because users' classes
// and selectors are written against them.
//
// What decides is pure: Slices makes slices of a view, readClaim makes an order of a claim, settings says what the claim's
// parameters ask for. Preparing is ensuring, in an order that a crash cannot hurt: the intent is written first and the CDI
// spec second; unpreparing takes the intent away first, so that what a crash leaves is a spec without intent, which the next
// start removes.
package dra
