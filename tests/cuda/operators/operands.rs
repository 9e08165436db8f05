//! Operators of one to six operands on a graphics card: eager, lazy, inside a reduction and a scan, in place, by derivative.

#[path = "../../common/operands.rs"]
mod each;

use crate::on_card;
use rankform::Cuda;
use rankform::prelude::*;

on_card!(an_operator_of_one_operand, |card| { each::an_operator_of_one_operand(card)? });
on_card!(an_operator_of_two_operands, |card| { each::an_operator_of_two_operands(card)? });
on_card!(an_operator_of_three_operands, |card| { each::an_operator_of_three_operands(card)? });
on_card!(an_operator_of_four_operands, |card| { each::an_operator_of_four_operands(card)? });
on_card!(an_operator_of_five_operands, |card| { each::an_operator_of_five_operands(card)? });
on_card!(an_operator_of_six_operands, |card| { each::an_operator_of_six_operands(card)? });
on_card!(maps_and_zips, |card| { each::maps_and_zips(card)? });
