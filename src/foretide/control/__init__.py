"""The closed loop: observe, foresee, wish, arbitrate, guard, decide. Pure: values in, values out."""
