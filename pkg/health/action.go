// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health

// RecoveryAction is what the driver says that a GPU needs (R565 and newer). The zero value is a driver that does not say,
// which is not the same as none.
type RecoveryAction int

// The actions of nvml.h 13.4.
const (
	ActionAbsent RecoveryAction = iota
	ActionNone
	ActionReset
	ActionReboot
	ActionDrain // of peer-to-peer traffic
	ActionDrainAndReset
	ActionOther // any number above: IMEX domain, bus, system, and what will be
)

var actionNames = []string{"absent", "none", "reset", "reboot", "drain", "drain and reset", "other"}

// ActionOf takes the number of nvmlDeviceGpuRecoveryAction_t.
func ActionOf(number uint64) RecoveryAction {
	return ActionNone + RecoveryAction(min(number, uint64(ActionOther-ActionNone)))
}

func (a RecoveryAction) String() string {
	if a < ActionAbsent || a > ActionOther {
		a = ActionOther
	}
	return actionNames[a]
}

// Class returns what the action demands; known is false where the driver does not say. To drain demands a reset, which ends
// the traffic too and after which none is proof. An action that is not known here is taken for the most severe.
func (a RecoveryAction) Class() (class Class, known bool) {
	switch a {
	case ActionAbsent:
		return Information, false
	case ActionNone:
		return Application, true
	case ActionReset, ActionDrain, ActionDrainAndReset:
		return Reset, true
	default:
		return Reboot, true
	}
}
