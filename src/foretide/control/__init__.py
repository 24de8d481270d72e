"""The control loop: observe, evaluate, wish, arbitrate, guard, decide. Pure: values in, values out."""
